"""Making what recognition needs, and experiments: `prepare`, `tokenizer`, `train`, `ngram`, `estimate_ilm`, `run`, …"""

import contextlib
import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fewer.api.arguments import check_choice, listed, paths
from fewer.compute.device import Precision, choose_placement
from fewer.compute.engines.engine import Engine
from fewer.compute.world import check_alone
from fewer.config import override_value, parse_config
from fewer.data.corpora.given import as_manifest
from fewer.data.corpora.prepare import PrepareOptions, SetSummary
from fewer.data.corpora.prepare import prepare as prepare_corpus
from fewer.data.corpora.split import Split
from fewer.data.corpora.texts import Case as Letters
from fewer.data.learn_bpe import learn_subword_nmt
from fewer.data.spelling import Case, check_case
from fewer.data.subword_nmt import SubwordNmtTokenizer
from fewer.data.token_store import read_text, store_tokens
from fewer.data.tokenizer import Tokenizer
from fewer.data.tokenizers import load_tokenizer, train_characters, train_sentencepiece, train_words
from fewer.errors import FewerError
from fewer.evaluation.perplexity import Perplexity
from fewer.experiments.demo import demo as run_demo
from fewer.experiments.layers import load_experiment, load_train_config
from fewer.experiments.run import run_experiment
from fewer.files import check_output
from fewer.ilm.config import IlmConfig
from fewer.ilm.estimate import estimate_ilm as estimate
from fewer.progress import progress
from fewer.recognisers.names import full_name
from fewer.report.page import write_report as write_page
from fewer.report.results import read_results
from fewer.report.tables import write_tables
from fewer.store.ngram_files import BINARY_SUFFIX, check_name, load_ngram, save_ngram
from fewer.store.returnn import import_returnn as read_returnn
from fewer.training.ngram_text import NGramConfig, Part, ngram_of_texts, stream_log_probs, write_ngram_of_texts
from fewer.training.run import train_model

BESIDE = ("table", "folder", "shar")  # what `prepare` writes manifests beside, unless a folder is named
KINDS = ("bpe", "characters", "words", "subword_nmt")


def prepare(
    corpus: str,
    src: str | Path,
    out: str | Path | None = None,
    *,
    sets: str | Sequence[str] | None = None,
    splits: str | Sequence[str] | None = None,
    transcripts: str | Path | None = None,
    skip_bad: bool = False,
    resample: int | None = None,
    case: Literal["keep", "lower", "upper"] = "keep",
    text: bool = False,
) -> list[SetSummary]:
    """Turn a corpus, or recordings of your own, into manifests: OUT/<set>.jsonl with one utterance per line.

        fewer.prepare("table", "dev.csv")  # writes dev.jsonl beside it

    Nothing is written if anything is wrong.

    Args:
        corpus: table, folder, datasets, shar, kaldi, librispeech, …: `fewer prepare --help` lists them.
        src: the corpus's folder, as it is distributed; a table's file; a dataset's name or folder.
        out: folder for the manifests. Default for table, folder and shar: the one that `src` is in.
        sets: only these sets.
        splits: also write parts of a set, divided by speaker: "SET=PART:SPEAKERS,PART".
        transcripts: folder of the transcripts, if they are not in `src`.
        skip_bad: leave out entries that cannot be used, and list them; else they are an error.
        resample: give every utterance this sampling rate in Hz.
        case: letters of the transcripts.
        text: also write the transcripts as plain text, <set>.txt.

    Returns:
        What each set holds: utterances, seconds, words, speakers, …
    """
    check_choice("case", case, [letters.value for letters in Letters])
    options = PrepareOptions(
        sets=tuple(listed(sets)),
        splits=tuple(Split.parse(one) for one in listed(splits)),
        transcripts=None if transcripts is None else Path(transcripts),
        skip_bad=skip_bad,
        resample=resample,
        case=Letters(case),
        text=text,
    )
    if out is None:
        if corpus not in BESIDE:
            raise FewerError(f"name a folder for the manifests: fewer prepare {corpus} {src} OUT")
        out = Path(src).absolute().parent
    return prepare_corpus(corpus, Path(src), Path(out), options)


def tokenizer(
    text: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    kind: Literal["bpe", "characters", "words", "subword_nmt"] = "bpe",
    size: int | None = None,
    merges: int | None = None,
    at_most: bool = False,
    min_count: int = 1,
    case: Case = "none",
) -> Tokenizer:
    """Make a tokenizer, one JSON file that models are trained with.

    Args:
        text: text files (plain, gzip, xz) or manifests; for subword_nmt without `merges`, the codes and the vocabulary.
        out: the tokenizer file to write, such as tokenizer.json.
        kind: "bpe" is sentencepiece's byte-pair encoding; "subword_nmt" learns as that tool does, or reads its files.
        size: tokens, the end and the unknown token included. Default: 500 for bpe, all for words.
        merges: how many merges to learn (subword_nmt); there are about as many tokens.
        at_most: fewer tokens are fine if the text does not yield so many (bpe).
        min_count: words that occur less often are unknown (words).
        case: spelling of all text: none, upper, lower or librispeech.
    """
    check_choice("kind", kind, KINDS)
    check_case(case)
    files = paths(text)
    if merges is not None and kind != "subword_nmt":
        raise FewerError(f"--merges has no meaning for --kind {kind}; it is for --kind subword_nmt")
    if size is not None and kind in ("characters", "subword_nmt"):
        raise FewerError(f"--size has no meaning for --kind {kind}: the text or the vocabulary says how many labels")
    lines = progress((line for path in files for line in read_text(path, case)), "reading text")
    made: Tokenizer
    if kind == "subword_nmt" and merges is not None:
        made = learn_subword_nmt(lines, merges)
    elif kind == "subword_nmt":
        if len(files) != 2:
            raise FewerError(
                "--kind subword_nmt needs two files, the codes and the vocabulary, then the one to write; "
                "to learn from text, give --merges"
            )
        made = SubwordNmtTokenizer.from_files(*files)
    elif kind == "bpe":
        made = train_sentencepiece(lines, size or 500, exact=not at_most)
    elif kind == "characters":
        made = train_characters(lines)
    else:
        made = train_words(lines, size, min_count)
    made.save(Path(out))
    return made


def train(
    config: str | Path, out: str | Path, *, change: str | Sequence[str] | None = None, fall_back: bool = False
) -> Path:
    """Train a recogniser or a language model; returns its folder, which `fewer.load` or `lm=` take.

    Killed at any moment, the same call goes on to the same result.

    Args:
        config: a YAML file, or the name of a recipe.
        out: the run folder; a run that is there goes on.
        change: changes of the configuration, such as "schedule.peak=0.001".
        fall_back: if the last checkpoint is damaged, go on from the one before it.
    """
    train_model(load_train_config(config, listed(change)), out, fall_back)
    return Path(out)


@dataclass(frozen=True)
class HeldOut:
    """How well a model predicts a text."""

    text: Path
    model: str  # the new model, or one that was mixed into it, with its weight
    perplexity: Perplexity


@dataclass(frozen=True)
class NGramSummary:
    """An n-gram model that was written."""

    path: Path
    counts: tuple[int, ...]  # n-grams of each length
    labels: int  # of the text, ends counted
    seconds: float
    held_out: tuple[HeldOut, ...]

    @property
    def bytes_per_ngram(self) -> float:
        """Of the file."""
        return self.path.stat().st_size / sum(self.counts)


def ngram(
    text: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    tokenizer: str | Path,
    order: int = 4,
    prune: Sequence[int] = (0,),
    mix: str | Path | None = None,
    heldout: str | Path | Sequence[str | Path] | None = None,
    case: Case = "none",
    allow_unknown: bool = False,
    cache: str | Path | None = None,
    memory: str | int | None = None,
) -> NGramSummary:
    """Estimate an n-gram language model (modified Kneser-Ney) over a recogniser's own tokens.

    Args:
        text: text files (plain, gzip, xz) or manifests; with `mix`, n-gram models too.
        out: the model to write: .arpa, .arpa.gz, or .safetensors, which is small and fast.
        tokenizer: the recogniser's tokenizer.json, or the folder of the model that has it.
        order: length of the longest n-grams.
        prune: drop n-grams that occur at most so often: a number for each length; the last one holds for longer ones.
        mix: held-out text: make one model of each text and mix them with the weights that fit it best.
        heldout: texts whose perplexity is measured.
        case: spelling of all text: none, upper, lower or librispeech.
        allow_unknown: take what the vocabulary lacks as the unknown token.
        cache: folder to keep tokenised text in for the next time, and to sort in.
        memory: bytes at most for what is estimated, such as "4G"; the rest is sorted in files of `cache`. The model,
            a .safetensors, is the same. Default: all in memory, up to 200 bytes for each token of the text.
    """
    began, out, mixed = time.monotonic(), Path(out), None if mix is None else Path(mix)
    check_name(out)
    check_output(out)
    values = {"order": order, "prune": tuple(prune), "case": case, "allow_unknown": allow_unknown}
    config = parse_config(NGramConfig, values, "fewer ngram")
    labels = load_tokenizer(tokenizer)
    most = None if memory is None else _bytes(memory)
    if most is not None and (mixed is not None or out.suffix != BINARY_SUFFIX):
        raise FewerError(f"--memory {memory}: this way models are written as {BINARY_SUFFIX}, and not mixed")
    held_out = []
    with contextlib.ExitStack() as stack:
        folder = Path(cache or stack.enter_context(tempfile.TemporaryDirectory(prefix="fewer-ngram-")))
        parts, model = tuple[Part, ...](), None
        if most is not None:
            folder.mkdir(parents=True, exist_ok=True)
            counts, length = write_ngram_of_texts(paths(text), out, labels, config, folder, most)
        else:
            made = ngram_of_texts(paths(text), labels, config, folder, mixed)
            save_ngram(out, made.model, labels.labels)
            model, counts, length, parts = made.model, tuple(made.model.counts()), made.labels, made.parts
        seconds = time.monotonic() - began
        measured = [*([] if mixed is None else [mixed]), *paths(heldout)]
        for path in measured:
            model = model or load_ngram(out, labels.labels, labels.end)
            store = store_tokens([path], labels, folder, case, allow_unknown)
            words = sum(len(line.split()) for line in read_text(path, case))
            own = float(stream_log_probs(model, store.labels).double().sum())
            mixing = [(f"{part.path} (weight {part.weight:.4f})", part.log_prob) for part in parts if path == mixed]
            for name, log_prob in [*mixing, (str(out), own)]:
                found = Perplexity.of(log_prob, len(store.labels), words, len(store))
                held_out.append(HeldOut(path, name, found))
    return NGramSummary(out, counts, length, seconds, tuple(held_out))


def _bytes(text: str | int) -> int:
    """4G, 500M and the like."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)B?", str(text).strip().upper())
    if match is None or not (count := int(float(match[1]) * 1024 ** " KMGT".index(match[2] or " "))):
        raise FewerError(f"--memory {text}: write bytes, such as 4G or 500M")
    return count


def estimate_ilm(
    model: str | Path,
    out: str | Path,
    method: str = "mini_lstm",
    *,
    train: str | Path | None = None,
    dev: str | Path | None = None,
    change: str | Sequence[str] | None = None,
    engine: str | Engine = "local",
    device: str = "auto",
    precision: Precision = "auto",
) -> dict[str, Any]:
    """Estimate a recogniser's internal language model.

    Args:
        model: the recogniser: a folder of `fewer train`, or one of transformers.
        out: a folder to write it to.
        method: zero, enc_avg, mini_lstm, …: `fewer ilm --help` lists them; or one of your own (docs/estimator.md).
        train: the recogniser's training set, as in `fewer.decode`; not every method needs it.
        dev: a set for the perplexity, and for when to stop training.
        change: other options of the method, such as "units=50" or "passes=4".
        engine: who encodes and searches, as in `Model.decode`; training stays in this process, or in torchrun's.
        device, precision: as in `fewer.load`.

    Returns:
        What the folder's ilm.json says: method, seconds, perplexity on `dev`.
    """
    values: dict[str, object] = {"method": method}
    for override in listed(change):
        values = override_value(values, override)
    config, placement = parse_config(IlmConfig, values, "fewer ilm"), choose_placement(device, precision)
    train, dev = (None if one is None else as_manifest(one) for one in (train, dev))
    return estimate(full_name(model), config, out, train, dev, placement, engine)


def run(
    recipe: str | Path,
    folder: str | Path,
    *,
    change: str | Sequence[str] | None = None,
    engine: str | None = None,
    device: str | None = None,
    precision: Precision | None = None,
) -> dict[str, Any]:
    """Run an experiment: train, estimate internal language models, tune, decode, score, and write its table.

    Interrupted, the same call goes on where it was.

    Args:
        recipe: a YAML file of an experiment, or the name of a recipe.
        folder: the run folder; a run that is there goes on.
        change: changes of the configuration, such as "beam=32".
        engine: who estimates and searches, as in `Model.decode`; not torchrun. Default: what the recipe says, or
            "local". Processes that train are another setting: change="processes=2".
        device, precision: as in `fewer.load`. Default: what the recipe says, or "auto" and "float32".

    Returns:
        What the folder's results.json says.
    """
    check_alone("fewer run", "set processes=N for its trainings and --engine for its searches")
    given = {"engine": engine, "device": device, "precision": precision}
    changes = [*listed(change), *(f"{name}={value}" for name, value in given.items() if value is not None)]
    return run_experiment(load_experiment(recipe, changes), folder)


def demo(folder: str | Path = "demo", *, quick: bool = False, seed: int = 1, device: str = "auto") -> dict[str, Any]:
    """Show the whole idea on a small corpus: synthesise speech, train, estimate internal LMs, tune, compare.

    Interrupted, the same call goes on where it was. FOLDER/report.html is a page to look at.

    Args:
        folder: for corpus, models, results and the page.
        quick: a smoke test in minutes; expect poor error rates.
        seed: the same seed, machine and thread count give the same results.
        device: as in `fewer.load`.

    Returns:
        The results, as in FOLDER/run/results.json.
    """
    check_alone("fewer demo")
    return run_demo(folder, quick, seed, device)


def import_returnn(
    checkpoint: str | Path,
    config: str | Path,
    out: str | Path,
    *,
    codes: str | Path,
    vocabulary: str | Path,
    mean: str | Path | None = None,
    deviation: str | Path | None = None,
) -> Path:
    """Turn a RETURNN (TensorFlow) checkpoint of one of the paper's models into a model folder; returns the folder.

    The configuration is read, not run. TensorFlow is not needed.

    Args:
        checkpoint: its name without ending, such as net-model/network.200.
        config: the RETURNN configuration that the model was trained with.
        out: the folder to write.
        codes: merges of subword-nmt, the configuration's bpe_file.
        vocabulary: the configuration's vocab_file.
        mean: the features' mean, the configuration's norm_mean; for recognisers with MFCCs.
        deviation: the features' deviation, the configuration's norm_std_dev.
    """
    if (mean is None) != (deviation is None):
        raise FewerError("--mean and --deviation come together")
    statistics = None if mean is None or deviation is None else (Path(mean), Path(deviation))
    read_returnn(checkpoint, config, out, codes, vocabulary, statistics)
    return Path(out)


def write_report(
    run: str | Path, out: str | Path | None = None, *, paper: str | None = None, tables: str | Path | None = None
) -> Path:
    """Write a run as one HTML file: table, error surfaces, and sliders that rank its N-best lists anew.

    Args:
        run: folder of a `fewer.run` or `fewer.demo`.
        out: where to write the page. Default: RUN/report.html.
        paper: table of the paper to show beside: its number or label, such as "2".
        tables: also write the table into this folder as Markdown, LaTeX, CSV and JSON.

    Returns:
        The page.
    """
    page = write_page(run, out, paper)
    if tables is not None:
        write_tables(read_results(Path(run)), tables, paper)
    return page
