"""What a run found, as its results.json says it: the rows of the table and where they come from."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from fewer.config import parse_config
from fewer.errors import FewerError
from fewer.files import read_json
from fewer.report.methods import facts_of
from fewer.report.paper import paper_table

SIGNIFICANT = 0.05  # p below which a difference gets a mark


class Facts(BaseModel):
    """Base of what is read from results.json; further keys are of no concern to tables."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Score(Facts):
    """The errors of one row on one set; rates in percent."""

    wer: float
    low: float | None = None  # 95 % interval
    high: float | None = None
    sub: int | None = None
    deletions: int | None = Field(default=None, alias="del")
    ins: int | None = None
    words: int | None = None
    ser: float | None = None  # sentences with an error
    p_vs_sf: float | None = None  # of no difference from shallow fusion; None: not compared
    p_vs_none: float | None = None  # of no difference from the recogniser alone; None: not compared
    utterances_fingerprint: str | None = None  # names the utterances, whatever the set is called


class Length(Facts):
    """How hypotheses of unequal length compare (see `fewer.search.nbest.LengthPolicy`)."""

    exponent: float = 1.0
    reward: float = 0.0


class Row(Facts):
    """One line of the table."""

    method: str
    name: str  # as printed
    row: str | None = None  # its key, which names its files; the method if not given
    recogniser: str = ""
    baseline: str | None = None  # key of the row that it is compared with
    lm_scale: float = 0.0  # λ1
    ilm_scale: float = 0.0  # λ2
    length: Length = Length()
    ilm_ppl: float | None = None
    ilm_ppl_set: str | None = None
    decodes: int | None = None  # made while tuning
    tune_wer: float | None = None  # on the set that was tuned on
    converged: bool | None = None  # whether more decodes would have told tuning nothing new; None: not known
    end_scored_by: list[str] | None = None  # terms that scored the end label, where tuning chose others than usual
    wer: dict[str, Score]  # by set

    @property
    def key(self) -> str:
        return self.row or self.method


class Results(Facts):
    """A whole results.json."""

    title: str
    tuned_on: str | None = None  # the set on which the scales were tuned
    tuned_on_fingerprint: str | None = None  # of that set's utterances
    sets: list[str]  # in the order of the columns
    rows: list[Row]
    references: dict[str, str] = {}  # set -> name of the .stm file that the rates of the rows were counted by
    warnings: list[str] = []
    paper: str | None = None  # table of the paper to print beside (see `fewer.report.paper`)
    end_scored_by: list[str] | None = None  # terms that scored the end label, where that was chosen
    normaliser: str = "none"  # by which texts were scored, as for `fewer score`
    versions: dict[str, Any] = {}
    commands: list[str] = []
    seconds: dict[str, float] = {}  # by stage
    seed: int | None = None

    @property
    def ordered(self) -> list[Row]:
        """The rows in the order of the paper's table, if it has all of them.

        Else those of one recogniser stay together, with their methods in the paper's order.
        """
        printed = list(paper_table(self.paper).rows) if self.paper else []
        if all(row.key in printed for row in self.rows):
            return sorted(self.rows, key=lambda row: printed.index(row.key))
        recognisers = list(dict.fromkeys(row.recogniser for row in self.rows))
        return sorted(self.rows, key=lambda row: (recognisers.index(row.recogniser), facts_of(row.method).order))

    def tuned(self, set_name: str) -> bool:
        """Whether the scales were tuned on this very set, going by its name or by its utterances."""
        if set_name == self.tuned_on:
            return True
        prints = {row.wer[set_name].utterances_fingerprint for row in self.rows if set_name in row.wer}
        return self.tuned_on_fingerprint is not None and self.tuned_on_fingerprint in prints

    def baseline(self, row: Row) -> Row | None:
        """The row that it was compared with, else shallow fusion with the same recogniser; None for that itself."""
        found = [other for other in self.rows if other.key == row.baseline]
        found += [other for other in self.rows if other.method == "sf" and other.recogniser == row.recogniser]
        return found[0] if found and found[0].key != row.key else None

    def without_lm(self, row: Row) -> Row | None:
        """The same recogniser by itself, if that is another row."""
        same = (other for other in self.rows if other.recogniser == row.recogniser)
        return next((other for other in same if other.method == "none" and other.key != row.key), None)

    @property
    def chosen(self) -> Row | None:
        """The row with the lowest WER where the scales were tuned, if that is known of two or more with an LM."""
        rates = {row.key: self.wer_where_tuned(row) for row in self.ordered if row.method != "none"}
        known = {key: rate for key, rate in rates.items() if rate is not None}
        if len(known) < 2 or self.tuned_on is None:
            return None
        return next(row for row in self.rows if row.key == min(known, key=lambda key: known[key]))

    def wer_where_tuned(self, row: Row) -> float | None:
        """The row's WER on the set that the scales were tuned on, whether or not that is a column."""
        found = [row.wer[name].wer for name in self.sets if self.tuned(name) and name in row.wer]
        return found[0] if found else row.tune_wer

    def verdict(self, row: Row, set_name: str) -> str:
        """How the row compares with shallow fusion: "better", "worse", or "" if that may be chance."""
        score, baseline = row.wer.get(set_name), self.baseline(row)
        other = baseline.wer.get(set_name) if baseline else None
        if score is None or other is None or score.p_vs_sf is None or score.p_vs_sf >= SIGNIFICANT:
            return ""
        return "better" if score.wer < other.wer else "worse" if score.wer > other.wer else ""

    def best(self, set_name: str) -> float | None:
        """The lowest WER on a set, as printed; None if all are equal."""
        found = [round(row.wer[set_name].wer, 2) for row in self.rows if set_name in row.wer]
        return min(found) if found and (len(found) == 1 or min(found) < max(found)) else None


def read_results(path: str | Path) -> Results:
    """Read a results.json, or the one of a run folder."""
    path = Path(path)
    file = path / "results.json" if path.is_dir() else path
    if not file.exists():
        raise FewerError(
            f"{path} has no results.json; is it the folder of a `fewer run` or `fewer demo` that has ended?"
        )
    return results_of(read_json(file), file)


def results_of(value: "Results | Mapping[str, Any]", source: str | Path = "results") -> Results:
    """Results from what is in a results.json; complaints name `source` and the field."""
    results = value if isinstance(value, Results) else parse_config(Results, value, source)
    keys = [row.key for row in results.rows]
    if twice := _repeated(keys):
        raise FewerError(f"{source}: two rows are named {twice}; give each a `row` of its own")
    if not results.rows:
        raise FewerError(f"{source}: there are no rows")
    return results


def _repeated(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
