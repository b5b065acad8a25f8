"""What an experiment is: recognisers, language models, sets, and the rows of its table."""

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, field_validator, model_validator

from fewer.compute.device import Precision
from fewer.config import Config
from fewer.ilm.registry import all_methods, check_method
from fewer.report.methods import WITHOUT_ILM, facts_of
from fewer.training.ngram_text import NGramConfig
from fewer.tuning.methods import unknown_scale
from fewer.tuning.tune import TuneOptions

TERMS = ("aed", "lm", "ilm")  # whose scales are tuned
Term: TypeAlias = Literal["aed", "lm", "ilm"]


class TokenizerConfig(Config):
    """A tokenizer to be made from text, or one that exists."""

    path: Path | None = None  # a tokenizer.json
    text: tuple[Path, ...] = ()  # texts or manifests to make one from
    kind: str = "bpe"  # bpe, characters or words
    size: int = 300  # labels


class ModelSource(Config):
    """A model folder that exists, or one to be trained in the run folder."""

    folder: Path | None = None
    train: dict[str, Any] | None = None  # a configuration of `fewer train`, without its tokenizer; may have a `base`

    @model_validator(mode="after")
    def _one_of_them(self) -> "ModelSource":
        if (self.folder is None) == (self.train is None):
            raise ValueError("give either `folder` or `train`")
        return self


class NGramSource(NGramConfig):
    """An n-gram to be estimated."""

    text: tuple[Path, ...]
    mix: Path | None = None  # held-out text for the weights of several texts


class LmSource(Config):
    """A language model: one that exists, one to be trained, or an n-gram to be estimated."""

    path: Path | None = None  # folder of `fewer train`, or n-gram file
    train: dict[str, Any] | None = None
    ngram: NGramSource | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> "LmSource":
        if sum(part is not None for part in (self.path, self.train, self.ngram)) != 1:
            raise ValueError("give one of `path`, `train` and `ngram`")
        return self


class Row(Config):
    """One line of the table: a recogniser, a language model, and what is subtracted."""

    method: str  # none, sf, train_w_lm, or a method of `fewer ilm`
    name: str | None = None  # unique within the table; the method if not given
    title: str | None = None  # as printed
    recogniser: str | None = None  # the first if not given
    lm: str | None = None  # the first if not given
    special_first: bool = True  # averages: ĉ_0 = 0
    subtract: str | None = None  # dr, decoder_like, lodr: which of `lms`; None: one is trained as `fewer ilm` does
    tuning: dict[str, Any] = Field(default={})  # options of tuning that differ for this row, such as `start`
    second_pass: tuple[str, ...] = ()  # rows whose hypotheses it ranks anew, instead of a search of its own

    @field_validator("method")
    @classmethod
    def _known(cls, method: str) -> str:
        check_method(method, *WITHOUT_ILM)
        return method

    @field_validator("tuning")
    @classmethod
    def _options(cls, tuning: dict[str, Any]) -> dict[str, Any]:
        TuneOptions(**tuning)
        return tuning

    @model_validator(mode="after")
    def _an_lm_is_subtracted(self) -> "Row":
        if self.subtract is not None and (not self.estimates or all_methods()[self.method].context is not None):
            raise ValueError(f"subtract: {self.method} estimates its internal LM from the recogniser; leave it out")
        return self

    @property
    def key(self) -> str:
        return self.name or self.method

    @property
    def label(self) -> str:
        return self.title or facts_of(self.method).symbol or self.method

    @property
    def estimates(self) -> bool:
        """Whether an internal LM is subtracted."""
        return self.method not in WITHOUT_ILM


class ExperimentConfig(Config):
    title: str
    seed: int = 1
    tokenizer: TokenizerConfig | None = None  # of what is trained here
    recognisers: dict[str, ModelSource]
    lms: dict[str, LmSource] = Field(default={})
    models: Path | None = None  # where trained models are kept, to share them between runs; None: in the run folder
    train: Path  # manifest of the recogniser's training set, which internal LMs are estimated on
    dev: Path  # manifest of the same domain: perplexities, and when to stop training them
    tune: Path  # manifest that scales are tuned on
    sets: dict[str, Path]  # manifests that are reported, by name
    rows: tuple[Row, ...]
    ilm: dict[str, dict[str, Any]] = Field(default={})  # method -> its options; "all" holds for every method
    beam: int = Field(default=12, ge=1)
    # What scores the end label: terms; "tuned": what is best for each row; None: all terms, as in the paper.
    end_scored_by: Annotated[tuple[Term, ...], Field(min_length=1)] | Literal["tuned"] | None = None
    # As in `System`. The paper does neither; `fewer adapt` does both to recognisers of transformers.
    centred: bool = False
    share: float = Field(default=0.0, ge=0, lt=1)
    processes: int = Field(default=1, ge=1)  # of this machine that train together
    engine: str = "local"  # who estimates and searches: local, processes:N, ray or ray:ADDRESS
    device: str = "auto"  # of training and search: auto (a GPU if there is one), cpu, cuda, cuda:1 or mps
    precision: Precision = "float32"  # of encoders in estimation and search
    encodings: Path | None = None  # where a Whisper's encoder states are kept, to share them between rows and runs
    tuning: TuneOptions = TuneOptions()
    normaliser: str = "none"  # of `fewer score`
    references: dict[str, Path] = Field(default={})  # set -> .stm to score it by, instead of the manifest's transcripts
    lm_text: tuple[Path, ...] = ()  # text of the LMs, looked through for the sets' transcripts
    hours: dict[str, float] = Field(default={})  # of sets, for a dry run where they are not here
    paper: str | None = None  # table of the paper to print beside the results

    @model_validator(mode="after")
    def _rows_refer_to_what_is_there(self) -> "ExperimentConfig":
        keys = [row.key for row in self.rows]
        if len(set(keys)) < len(keys):
            raise ValueError(f"two rows have the same name: {', '.join(keys)}")
        for row in self.rows:
            if row.recogniser is not None and row.recogniser not in self.recognisers:
                raise ValueError(f"row {row.key}: there is no recogniser {row.recogniser}")
            for lm in (row.lm, row.subtract):
                if lm is not None and lm not in self.lms:
                    raise ValueError(f"row {row.key}: there is no LM {lm}")
            if row.method != "none" and not self.lms:
                raise ValueError(f"row {row.key} needs a language model: give one under `lms`")
            self._check_second_pass(row)
        if unknown := [name for name in self.references if name not in self.sets]:
            raise ValueError(f"references: {', '.join(unknown)} is none of the sets")
        return self

    @model_validator(mode="after")
    def _tuning_is_of_scales_that_are_there(self) -> "ExperimentConfig":
        of_rows = {f"row {row.key}: tuning": TuneOptions(**row.tuning) for row in self.rows}
        for where, options in {"tuning": self.tuning, **of_rows}.items():
            if unknown := unknown_scale(TERMS, options):
                raise ValueError(f"{where}: {unknown}, but there are only {', '.join(TERMS)}")
        return self

    def _check_second_pass(self, row: Row) -> None:
        if row.second_pass and (self.share or self.centred):
            name = "share" if self.share else "centred"
            raise ValueError(f"row {row.key}: second_pass scores with each model alone; leave out `{name}`")
        searched = {other.key: other for other in self.rows if not other.second_pass}
        for name in row.second_pass:
            if name not in searched:
                raise ValueError(f"row {row.key}: second_pass {name} is no row that searches")
            of = searched[name]
            if (self.recogniser_of(of), self.lm_of(of)) != (self.recogniser_of(row), self.lm_of(row)):
                raise ValueError(f"row {row.key}: second_pass {name} has another recogniser or LM")

    def recogniser_of(self, row: Row) -> str:
        return row.recogniser or next(iter(self.recognisers))

    def lm_of(self, row: Row) -> str | None:
        return None if row.method == "none" else row.lm or next(iter(self.lms))
