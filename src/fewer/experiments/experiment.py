"""An experiment from data to table, in a run folder; started again, what is done is not done twice.

tokenizer.json, models/<name>, ilm/<recogniser>/<method>, tuning/<row>, pools/<row>.jsonl,
decodes/<set>/<row>.jsonl, results.json, table.md …
"""

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from fewer.compute.device import Placement, choose_placement
from fewer.compute.engines import started
from fewer.compute.engines.engine import Engine, Local
from fewer.config import parse_config
from fewer.data.manifest import Manifest
from fewer.data.token_store import read_text
from fewer.data.tokenizer import Tokenizer
from fewer.data.tokenizers import load_tokenizer, train_characters, train_sentencepiece, train_words
from fewer.decoding.decode import Decode, decode_all, header
from fewer.decoding.encoding import EncodedSet, encode_set, hold_set
from fewer.decoding.identity import identity
from fewer.decoding.second_pass import reranked, second_pass_method, united, with_ilm
from fewer.decoding.system import System, load_system
from fewer.decoding.tunable import tuning_method
from fewer.errors import FewerError
from fewer.evaluation.normalise import load_normaliser
from fewer.experiments.config import ExperimentConfig, LmSource, ModelSource, NGramSource, Row
from fewer.experiments.kept import another, check_same, is_measured
from fewer.experiments.layers import train_values
from fewer.experiments.results import results_of_run
from fewer.experiments.separate import subtract_lm
from fewer.files import LOCK, atomic_write, fingerprint, is_leftover, read_json, read_json_object, write_json
from fewer.ilm.config import IlmConfig
from fewer.ilm.estimate import estimate_ilm
from fewer.locks import exclusive
from fewer.models.lm import LanguageModel
from fewer.progress import say, warn
from fewer.recognisers.loader import load_recogniser
from fewer.recognisers.recogniser import Recogniser
from fewer.search.beam import SearchOptions
from fewer.search.nbest import read_header, read_nbest, write_nbest
from fewer.store.lms import load_lm
from fewer.store.model_folder import WEIGHTS
from fewer.store.ngram_files import save_ngram
from fewer.training.configs import TrainConfig, changed_keys, parse_train_config
from fewer.training.ngram_text import ngram_of_texts
from fewer.training.records import CURVES
from fewer.training.together import train_together
from fewer.tuning.methods import Method, options_of, tune_all
from fewer.tuning.pool import Metric
from fewer.tuning.space import Scales
from fewer.tuning.store import Tuned, any_decode, chosen_decode, read_tuned


class Experiment:
    """One run folder. Each stage says what it does and how long it took."""

    def __init__(self, config: ExperimentConfig, folder: str | Path):
        self.config, self.folder = config, Path(folder)
        self.seconds: dict[str, float] = {}
        self.engine: Engine = Local()
        self._recognisers, self._lms = dict[str, Recogniser](), dict[tuple[str, str], LanguageModel]()

    def run(self) -> dict[str, Any]:
        """All stages; returns the results."""
        with exclusive(self.folder), started(self.config.engine, self.placement.device) as self.engine:
            for lock in list(self.folder.glob(f"*/**/{LOCK}")):  # a killed process left it, or one works there
                with exclusive(lock.parent):
                    pass
            return self._run()

    def _run(self) -> dict[str, Any]:
        self._open()
        with self._stage("tokenizer"):
            if self.config.tokenizer is not None:
                self._make_tokenizer()
        for name in self.config.lms:
            with self._stage(f"LM {name}"):
                self.lm(name)
        for name in self.config.recognisers:
            with self._stage(f"recogniser {name}"):
                self.recogniser(name)
        with self._stage("internal LMs"):
            for row in self.config.rows:
                if row.estimates:
                    self.ilm(row)
        with self._stage("tuning"):
            self._tune()
        with self._stage("decoding"):
            self._decode()
        results = results_of_run(self)
        write_json(self.folder / "results.json", results)
        return results

    def _open(self) -> None:
        """Note the configuration; refuse a folder that holds another experiment. It may go on in more processes."""
        path, now = self.folder / "experiment.json", json.loads(self.config.model_dump_json())
        there = read_json_object(path) if path.exists() else now
        usual = {name: option.default for name, option in ExperimentConfig.model_fields.items()}
        there = usual | there  # an older version may lack some
        free = ("processes", "engine", "device")  # these may be others than before
        if changed := [key for key in now if there.get(key) != now[key] and key not in free]:
            raise FewerError(
                f"{self.folder} holds a run with another configuration ({', '.join(changed)} differ); "
                "give another folder, or delete it to start anew"
            )
        if not path.exists() and self.folder.exists() and any(not is_leftover(path) for path in self.folder.iterdir()):
            raise FewerError(f"{self.folder} is not empty and not a run; give another folder")
        write_json(path, now)

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        spent = time.monotonic() - began
        known = read_json(self.folder / "seconds.json") if (self.folder / "seconds.json").exists() else {}
        known[name] = round(known.get(name, 0.0) + spent, 1)
        write_json(self.folder / "seconds.json", known)
        self.seconds = known

    @cached_property
    def placement(self) -> Placement:
        return choose_placement(self.config.device, self.config.precision)

    @property
    def _gpus(self) -> int:
        """GPUs that may be used: each process that trains has its own."""
        return torch.cuda.device_count() if self.placement.device.type == "cuda" else 0

    @property
    def tokenizer_path(self) -> Path:
        given = self.config.tokenizer and self.config.tokenizer.path
        return given or self.folder / "tokenizer.json"

    def _make_tokenizer(self) -> None:
        config = self.config.tokenizer
        assert config is not None
        if self.tokenizer_path.exists():
            return
        if not config.text:
            raise FewerError(f"there is no tokenizer {self.tokenizer_path}: make it with `fewer tokenizer`")
        lines = (line for path in config.text for line in read_text(path))
        tokenizer: Tokenizer
        if config.kind == "bpe":
            tokenizer = train_sentencepiece(lines, config.size, exact=False)
        else:
            tokenizer = train_characters(lines) if config.kind == "characters" else train_words(lines, config.size)
        tokenizer.save(self.tokenizer_path)

    def recogniser(self, name: str) -> Path:
        """The model folder, trained if need be."""
        return self._trained(self.config.recognisers[name], name)

    def _trained(self, source: ModelSource | LmSource, name: str) -> Path:
        if isinstance(source, ModelSource) and source.folder is not None:
            return source.folder
        assert source.train is not None
        own = self.folder / "models" / name
        folder = own if self.config.models is None else self.config.models / name
        config = self._train_config(name, source.train)
        if not (folder / WEIGHTS).exists():
            say(f"training {name}")
            train_together(config, folder, min(self.config.processes, self._gpus or self.config.processes))
        elif folder != own:
            check_same(config, folder)
        if folder != own and (folder / CURVES).exists():  # the report shows what is in the run folder
            own.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / CURVES, own / CURVES)
        return folder

    def _train_config(self, name: str, values: dict[str, Any]) -> TrainConfig:
        """Laid over its `base`; an external LM to train with and a recogniser to start from may be the experiment's."""
        values = {"seed": self.config.seed, **train_values(values), "tokenizer": str(self.tokenizer_path)}
        if self.config.device != "auto":
            values["device"] = self.config.device
        if external := values.get("external_lm"):
            values["external_lm"] = {**external, "model": str(self.lm(external["model"]))}
        if (initial := values.get("initial")) in self.config.recognisers:
            values["initial"] = str(self.recogniser(initial))
        return parse_train_config(values, f"{self.config.title}: {name}")

    def lm(self, name: str) -> Path:
        source = self.config.lms[name]
        if source.path is not None:
            return source.path
        if source.ngram is None:
            return self._trained(source, name)
        return self._ngram(name, source.ngram)

    def _ngram(self, name: str, source: NGramSource) -> Path:
        """The n-gram file, estimated if need be; beside it, what it was estimated from."""
        folder, tokenizer = self.config.models or self.folder / "models", load_tokenizer(self.tokenizer_path)
        path, facts = folder / f"{name}.safetensors", folder / f"{name}.json"
        wanted = {**json.loads(source.model_dump_json()), "tokenizer": tokenizer.fingerprint}
        if path.exists() and facts.exists():
            if changes := changed_keys(read_json(facts), wanted):
                raise another(path, "estimated", changes)
            return path
        say(f"estimating {name}")
        made = ngram_of_texts(source.text, tokenizer, source, folder / "text", source.mix)
        save_ngram(path, made.model, tokenizer.labels)
        write_json(facts, wanted)
        return path

    def ilm(self, row: Row) -> Path:
        """The folder of the row's internal LM, estimated if need be."""
        config = self.config
        name = config.recogniser_of(row)
        variant = row.subtract or (row.method if row.special_first else f"{row.method}_no_first")
        folder = self.folder / "ilm" / name / variant
        if not is_measured(folder):
            options = {"method": row.method, "special_first": row.special_first, "seed": config.seed}
            options |= {"encodings": config.encodings, "means": self._means(name)}
            options |= {**config.ilm.get("all", {}), **config.ilm.get(row.method, {})}
            say(f"internal LM {variant}")
            chosen, model = parse_config(IlmConfig, options, variant), self.recogniser(name)
            if row.subtract is not None:
                subtract_lm(model, chosen, self.lm(row.subtract), folder, self._dev)
            else:
                estimate_ilm(model, chosen, folder, config.train, self._dev, self.placement, self.engine)
        return folder

    def _means(self, recogniser: str) -> Path | None:
        """Where E_D[h] and E_D[c] of a recogniser are kept, if its rows need both: one pass then measures them."""
        rows = [row for row in self.config.rows if self.config.recogniser_of(row) == recogniser]
        both = {"enc_avg", "ctx_avg"} <= {row.method for row in rows}
        return self.folder / "ilm" / recogniser / "means" if both else None

    @cached_property
    def _dev(self) -> Path:
        """The dev manifest; test sets of telephone speech hold segments without words, of which an LM says nothing."""
        dev = self.config.dev
        texts = list(Manifest(dev, transcripts=False).texts())
        if all(text.strip() for text in texts):
            return dev
        warn(f"{dev.stem}: {sum(not text.strip() for text in texts)} utterances without words count in no perplexity")
        path = self.folder / "text" / dev.name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(dev, encoding="utf-8") as source, atomic_write(path) as target:
            target.writelines(line for line, text in zip(source, texts, strict=True) if text.strip())
        return path

    def system(self, row: Row) -> System:
        recogniser, lm = self._loaded(self.config.recogniser_of(row)), self.config.lm_of(row)
        system = load_system(
            recogniser,
            ilm=self.ilm(row) if row.estimates else None,
            end_scored_by=None if self._ends else self.config.end_scored_by,
            centred=self.config.centred,
            share=self.config.share,
        )
        if lm is None:
            return system
        names = {"lm": str(self.lm(lm)), **system.names}
        return replace(system, lm=self._loaded_lm(lm, recogniser), names=names)

    def _loaded(self, name: str) -> Recogniser:
        if name not in self._recognisers:
            recogniser = load_recogniser(self.recogniser(name), cached=True, placement=self.placement)
            if self.config.encodings is not None:
                recogniser.keep_encodings(self.config.encodings)
            self._recognisers[name] = recogniser
        return self._recognisers[name]

    def _loaded_lm(self, name: str, recogniser: Recogniser) -> LanguageModel:
        """One for all rows that have it, with labels of the recogniser."""
        key = name, recogniser.tokenizer.fingerprint
        if key not in self._lms:
            self._lms[key] = load_lm(self.lm(name), recogniser.tokenizer, recogniser.device)
        return self._lms[key]

    @cached_property
    def metric(self) -> Metric:
        normaliser = load_normaliser(self.config.normaliser)
        return Metric(normaliser, "hubscr" if normaliser.glm else "plain")

    def _tune(self) -> None:
        """Every row with its own pool and the same budget; rows of one recogniser share its encoder's output."""
        config = self.config
        for name in dict.fromkeys(config.recogniser_of(row) for row in config.rows):
            rows = [row for row in config.rows if config.recogniser_of(row) == name]
            if all(self._is_tuned(row) for row in rows):
                continue
            manifest = Manifest(config.tune, transcripts=False)
            with hold_set(self._loaded(name), manifest, self.folder / "encodings", engine=self.engine) as batches:
                for lm in dict.fromkeys(config.lm_of(row) for row in rows):  # decodes are shared where the LM is
                    same = [row for row in rows if config.lm_of(row) == lm]
                    for make, again in ((self._method, False), (self._second_pass_method, True)):
                        if methods := [make(row, batches) for row in same if bool(row.second_pass) == again]:
                            self._tune_together(methods)
        for row in config.rows:
            target = self.folder / "pools" / f"{row.key}.jsonl"
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(self.folder / "tuning" / row.key / "pool.jsonl", target)

    def _is_tuned(self, row: Row) -> bool:
        """With the models that are there now. (A second pass ranks what other rows found, which are looked at.)"""
        folder = self.folder / "tuning" / row.key
        if not (folder / "tune.json").exists():
            return False
        return bool(row.second_pass) or read_header(chosen_decode(folder)).info["identity"] == self._marks(
            self._tuned_system(row)
        )

    @property
    def _ends(self) -> bool:
        """Whether tuning chooses what scores the end label."""
        return self.config.end_scored_by == "tuned"

    def _tuned(self, row: Row) -> Tuned:
        return read_tuned(self.folder / "tuning" / row.key / "tune.json")

    def _tuned_system(self, row: Row) -> System:
        system, end_by = self.system(row), self._tuned(row).end_by
        return system if end_by is None else replace(system, end_scored_by=end_by)

    def _marks(self, system: System, set_name: str | None = None) -> str:
        """Of all that a decode depends on but the scales; without a set's name, of the set that is tuned on."""
        manifest = self.config.tune if set_name is None else self.config.sets[set_name]
        return identity(system, SearchOptions(self.config.beam), manifest)

    def _tune_together(self, methods: list[Method]) -> None:
        """Methods with the same LM; what is said of scales that none of them has is for other rows."""
        options = options_of([term for method in methods for term in method.terms], self.config.tuning)
        tune_all(methods, options, self.metric, self.folder / "tuning", Path(self.config.tune).stem, self.engine)

    def _method(self, row: Row, batches: EncodedSet) -> Method:
        system, search = self.system(row), SearchOptions(self.config.beam)
        method = tuning_method(row.key, system, batches, search, self._marks, self._ends)
        return replace(method, options=row.tuning)

    def _second_pass_method(self, row: Row, batches: EncodedSet) -> Method:
        system = self.system(row)
        sources = [chosen_decode(self.folder / "tuning" / name) for name in row.second_pass]
        marks = fingerprint(self._marks(system), *sources)
        lists = any_decode(self.folder / "tuning" / row.key, marks)  # of a run that was stopped: scored already
        if lists is None:
            lists = with_ilm(system, united([list(read_nbest(source)) for source in sources]), lambda: batches)
        return second_pass_method(row.key, system, lists, marks)

    def _inside(self, path: Path) -> str:
        """A path as the run's files tell it: wherever the run folder is, they are the same."""
        return str(path.relative_to(self.folder) if path.is_relative_to(self.folder) else path)

    def scales(self, row: Row) -> Scales:
        return self._tuned(row).multiplied

    def nbest_path(self, row: Row, set_name: str) -> Path:
        return self.folder / "decodes" / set_name / f"{row.key}.jsonl"

    def _decode(self) -> None:
        """The rows on all sets, side by side; one by one if this process is alone, which takes less memory."""
        first, second = ([row for row in self.config.rows if bool(row.second_pass) == again] for again in (False, True))
        asked = (one for row in first for one in self._asked(row))
        for group in ([one] for one in asked) if isinstance(self.engine, Local) else filter(None, [list(asked)]):
            decode_all(group, self.engine)
        for row in second:  # these need the others' lists
            for one in self._asked(row):
                found = united([list(read_nbest(one.out.with_name(f"{name}.jsonl"))) for name in row.second_pass])
                encode = partial(encode_set, System(one.system.recogniser), Manifest(one.manifest, transcripts=False))
                info = {**one.info, "set": one.manifest.stem, "second_pass": list(row.second_pass)}
                ranked = reranked(with_ilm(one.system, found, encode), self.scales(row))
                write_nbest(one.out, header(one.system, one.scales, one.options, info), ranked)

    def _asked(self, row: Row) -> Iterator[Decode]:
        """What is to be decoded for a row and was not, or with other models."""
        system, scales = self._tuned_system(row), self.scales(row)
        options = SearchOptions(self.config.beam, scales.length)
        for name, manifest in self.config.sets.items():
            path = self.nbest_path(row, name)
            sources = [path.with_name(f"{other}.jsonl") for other in row.second_pass]
            info: dict[str, Any] = {"identity": fingerprint(self._marks(system, name), *sources)}
            info |= {term: self._inside(Path(model)) for term, model in system.names.items()}
            wanted = header(system, scales.terms, options, info)
            there = read_header(path) if path.exists() else None
            same = there and (there.scales, there.length) == (wanted.scales, wanted.length)
            if not (there and same and there.info.get("identity") == info["identity"]):
                say(f"{row.label} on {name}")
                yield Decode(system, manifest, path, scales.terms, options, info)
