"""The table as cells, before it takes the form of Markdown, LaTeX, HTML or a terminal's."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from fewer.report.methods import facts_of
from fewer.report.paper import ILM_PPL, ILM_SCALE, LM_SCALE, PaperTable, paper_table
from fewer.report.results import SIGNIFICANT, Results, Row, Score

TERMS = {"aed": "the recogniser", "lm": "the LM", "ilm": "the internal LM"}
TUNED = "†"  # stands beside the set that was tuned on
WORSE = "↑"  # significantly more errors than shallow fusion
STARS = ((0.001, "***"), (0.01, "**"), (SIGNIFICANT, "*"))  # significantly fewer: p below … gets …
NOTHING = "–"  # a cell without a value

Kind = Literal["name", "scale", "wer", "ppl", "paper"]


@dataclass(frozen=True)
class Head:
    """A column."""

    title: str
    kind: Kind
    set: str | None = None  # of a column of error rates
    tuned: bool = False  # the scales were tuned on that set


@dataclass(frozen=True)
class Cell:
    """What stands in a column."""

    text: str
    interval: str = ""  # 95 %, without brackets
    mark: str = ""  # significance
    best: bool = False
    score: Score | None = None


@dataclass(frozen=True)
class Line:
    """A row, with the group that it belongs to."""

    row: Row
    group: tuple[str, int]  # recogniser and kind of method; tables draw a line where it changes
    cells: list[Cell]


@dataclass(frozen=True)
class Grid:
    """Heads, lines and what must be said below them."""

    title: str
    heads: list[Head]
    lines: list[Line]
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def groups(self) -> Iterator[tuple[bool, Line]]:
        """The lines, each with whether a new group starts there."""
        last = None
        for line in self.lines:
            yield last is not None and line.group != last, line
            last = line.group


def make_grid(results: Results, paper: str | None = None) -> Grid:
    """The table of a run, next to the table `paper` of the paper if one is named here or by the run."""
    name = paper or results.paper
    printed = paper_table(name) if name else None
    return Grid(
        results.title,
        _heads(results, printed),
        [
            Line(row, (row.recogniser, facts_of(row.method).order[0]), _cells(results, row, printed))
            for row in results.ordered
        ],
        _notes(results, printed),
        list(results.warnings),
    )


def paper_row(results: Results, row: Row, printed: PaperTable) -> str:
    """Key of the paper's row that is the same system: by the row's own key, else by its method if that is unique."""
    if row.key in printed.rows or sum(other.method == row.method for other in results.rows) > 1:
        return row.key
    return row.method


def number(value: float | None, digits: int = 2) -> str:
    return NOTHING if value is None else f"{value:.{digits}f}"


def perplexity_text(value: float | None) -> str:
    return number(value, 1 if value is not None and value < 100 else 0)


def mark(results: Results, row: Row, set_name: str) -> str:
    """Stars where the row is significantly better than shallow fusion, an arrow where it is worse."""
    verdict = results.verdict(row, set_name)
    if verdict == "better":
        p = row.wer[set_name].p_vs_sf or 0.0
        return next(stars for limit, stars in STARS if p < limit)
    return WORSE if verdict == "worse" else ""


def _heads(results: Results, printed: PaperTable | None) -> list[Head]:
    heads = [Head("Method", "name"), Head("λ1 (LM)", "scale")]
    heads += _beside(printed, LM_SCALE)
    heads += [Head("λ2 (ILM)", "scale"), *_beside(printed, ILM_SCALE)]
    for name in results.sets:
        heads.append(Head(name, "wer", name, results.tuned(name)))
        heads += _beside(printed, printed.column_of(name) if printed else None)
    if _has_perplexity(results, printed):
        heads += [Head("ILM PPL", "ppl"), *_beside(printed, ILM_PPL)]
    return heads


def _beside(printed: PaperTable | None, column: str | None) -> list[Head]:
    return [Head("paper", "paper")] if printed and column in printed.columns else []


def _has_perplexity(results: Results, printed: PaperTable | None) -> bool:
    return any(row.ilm_ppl is not None for row in results.rows) or bool(printed and ILM_PPL in printed.columns)


def _cells(results: Results, row: Row, printed: PaperTable | None) -> list[Cell]:
    def beside(column: str | None) -> list[Cell]:
        if printed is None or column not in printed.columns:
            return []
        assert column is not None
        key = paper_row(results, row, printed)
        return [Cell(printed.cell(key, column) or NOTHING, best=printed.is_bold(key, column))]

    cells = [Cell(row.name), Cell(number(row.lm_scale)), *beside(LM_SCALE)]
    cells += [Cell(number(row.ilm_scale)), *beside(ILM_SCALE)]
    for name in results.sets:
        score = row.wer.get(name)
        if score is None:
            cells.append(Cell(NOTHING))
        else:
            known = score.low is not None and score.high is not None
            interval = f"{score.low:.2f}–{score.high:.2f}" if known else ""
            best = round(score.wer, 2) == results.best(name)
            cells.append(Cell(number(score.wer), interval, mark(results, row, name), best, score))
        cells += beside(printed.column_of(name) if printed else None)
    if _has_perplexity(results, printed):
        cells += [Cell(perplexity_text(row.ilm_ppl)), *beside(ILM_PPL)]
    return cells


def _notes(results: Results, printed: PaperTable | None) -> list[str]:
    tuned = [name for name in results.sets if results.tuned(name)]
    notes = ["WER in %, with its 95 % bootstrap interval; the lowest of each set in bold."]
    if tuned:
        notes.append(
            f"{TUNED} λ1, λ2 and the length were tuned on {', '.join(tuned)}: rates there flatter every method."
        )
    elif results.tuned_on:
        notes.append(f"λ1, λ2 and the length were tuned on {results.tuned_on}.")
    notes += _choice_note(results)
    if results.end_scored_by is not None:
        notes.append(f"The end label was scored by {_listed(results.end_scored_by)} alone.")
    for row in results.ordered:
        if row.end_scored_by is not None:
            notes.append(f"{row.name}: tuning chose that {_listed(row.end_scored_by)} alone score the end label.")
    marks = {mark(results, row, name) for row in results.rows for name in results.sets}
    if marks & {stars for _, stars in STARS}:
        notes.append("*, **, ***: fewer errors than shallow fusion, p < 0.05, 0.01, 0.001 (paired test).")
    if WORSE in marks:
        notes.append(f"{WORSE}: more errors than shallow fusion, p < {SIGNIFICANT} (paired test).")
    if open_rows := [row.name for row in results.ordered if row.converged is False]:
        notes.append(f"Not converged within the decodes of tuning: {', '.join(open_rows)}.")
    measured = sorted({row.ilm_ppl_set for row in results.rows if row.ilm_ppl is not None and row.ilm_ppl_set})
    if measured:
        notes.append(f"ILM PPL: perplexity per label of what is subtracted, on {', '.join(measured)}.")
    if printed:
        notes.append(f"paper: table {printed.number} of Zeineldeen et al., Interspeech 2021, as printed.")
    return notes


def _listed(terms: list[str]) -> str:
    return " and ".join(TERMS[term] for term in terms)


def _choice_note(results: Results) -> list[str]:
    """Why the method that one would choose is not the one in bold, where that is so."""
    chosen = results.chosen
    if chosen is None:
        return []
    fair = [name for name in results.sets if not results.tuned(name) and name in chosen.wer]
    if all(results.best(name) in (None, round(chosen.wer[name].wer, 2)) for name in fair):
        return []
    return [
        f"To be used: {chosen.name}, the best on {results.tuned_on}. "
        "A method in bold was lowest on that set by hindsight; choosing by it would flatter the result."
    ]
