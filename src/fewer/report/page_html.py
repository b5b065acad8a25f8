"""The parts of the page that need no script: headline, warnings, table and the facts of the run."""

import html
import re
from typing import Any

from fewer.report.grid import TUNED, WORSE, Cell, Grid, Head
from fewer.report.results import SIGNIFICANT, Results, Row

AXIS = 100.0  # width of the little plots of intervals


def escape(text: object) -> str:
    return html.escape(str(text), quote=True)


def pretty(name: str) -> str:
    """A method's name as HTML: E_D[h] with its index below."""
    return re.sub(r"\bE_(\w)\[(\w)\]", r"E<sub>\1</sub>[\2]", escape(name))


def table_html(results: Results, grid: Grid) -> str:
    """The table, each rate with its interval as text and as a little plot; the notes below."""
    axes = {name: _axis(results, name) for name in results.sets}
    heads = "".join(_head(head) for head in grid.heads)
    rows = []
    for starts, line in grid.groups():
        base = results.baseline(line.row)
        cells = "".join(
            _cell(cell, head, axes, base or line.row, _scales(line.row))
            for cell, head in zip(line.cells, grid.heads, strict=True)
        )
        rows.append(f'<tr class="{"starts" if starts else ""}">{cells}</tr>')
    beside = " beside" if any(head.kind == "paper" for head in grid.heads) else ""
    notes = "".join(f"<li>{escape(note)}</li>" for note in (*grid.notes, *_plot_note(results)))
    return (
        f'<div class="scroll"><table class="results{beside}"><thead><tr>{heads}</tr></thead>'
        f'<tbody>{"".join(rows)}</tbody></table></div><ul class="notes">{notes}</ul>'
    )


def _plot_note(results: Results) -> list[str]:
    has_base = any(row.method == "sf" for row in results.rows)
    return ["Marks and lines: the rate and its interval; dotted: shallow fusion."] if has_base else []


def _head(head: Head) -> str:
    tag = f'<span class="tag">tuned on {TUNED}</span>' if head.tuned else ""
    title = re.sub(r"λ(\d)", r"λ<sub>\1</sub>", escape(head.title))
    return f'<th scope="col" class="{_class(head)}">{tag}{title}</th>'


def _scales(row: Row) -> str:
    """Those that are used, and the perplexity of what is subtracted."""
    found = [f"λ{number} {scale:.2f}" for number, scale in ((1, row.lm_scale), (2, row.ilm_scale)) if scale]
    return " · ".join(found)


def _class(head: Head) -> str:
    return " ".join(filter(None, [{"wer": "score"}.get(head.kind, head.kind), "tuned" if head.tuned else ""]))


def _cell(cell: Cell, head: Head, axes: dict[str, tuple[float, float]], base: Row, scales: str) -> str:
    """scales: stands below the name on narrow screens, which have no columns for it."""
    if head.kind == "name":
        return f'<th scope="row">{pretty(cell.text)}<small class="scales">{escape(scales)}</small></th>'
    if cell.score is None or head.set is None:
        return f'<td class="{_class(head)}">{escape(cell.text)}</td>'
    mark = f'<span class="mark {"worse" if cell.mark == WORSE else ""}">{escape(cell.mark)}</span>'
    interval = f'<span class="interval">{escape(cell.interval)}</span>' if cell.interval else ""
    other = base.wer.get(head.set)
    plot = _whisker(cell, axes[head.set], other.wer if other else None)
    best = " best" if cell.best else ""
    rate = f'<span class="rate"><b>{escape(cell.text)}</b>{mark}</span>'
    return f'<td class="{_class(head)}{best}"><div class="cell">{plot}{rate}{interval}</div></td>'


def _axis(results: Results, name: str) -> tuple[float, float]:
    scores = [row.wer[name] for row in results.rows if name in row.wer]
    values = [v for score in scores for v in (score.wer, score.low, score.high) if v is not None]
    low, high = min(values, default=0.0), max(values, default=1.0)
    return low, max(high, low + 0.01)


def _whisker(cell: Cell, axis: tuple[float, float], base: float | None) -> str:
    """The interval as a line, the rate as a dot, shallow fusion as a dashed line."""
    score = cell.score
    if score is None or score.low is None or score.high is None:
        return ""

    def place(value: float) -> str:
        return f"{4 + (AXIS - 8) * (value - axis[0]) / (axis[1] - axis[0]):.1f}"

    low, mid, high = place(score.low), place(score.wer), place(score.high)
    dashed = f'<line class="base" x1="{place(base)}" x2="{place(base)}" y1="0" y2="12"/>' if base is not None else ""
    return (
        f'<svg class="whisker-plot" viewBox="0 0 {AXIS:.0f} 12" preserveAspectRatio="none" aria-hidden="true">{dashed}'
        f'<line class="span" x1="{low}" x2="{high}" y1="6" y2="6"/>'
        f'<rect class="mid" x="{float(mid) - 1.5:.1f}" y="2" width="3" height="8" rx="1"/></svg>'
    )


def headline_html(results: Results) -> str:
    """The best method by the set that was tuned on, and how it does elsewhere against no LM and shallow fusion."""
    best = results.chosen
    if best is None:
        return ""
    fair = [name for name in results.sets if not results.tuned(name)]
    where = f"On {escape(results.tuned_on)}, where the scales were tuned,"
    others = [(row, label) for row, label in ((results.without_lm(best), "no LM"), (results.baseline(best), "")) if row]
    if best.method == "sf":
        story = f"{where} no method beats shallow fusion."
    else:
        story = f"{where} the best method is <b>{pretty(best.name)}</b>."
    tiles = [_tile(results, best, others, name) for name in fair if name in best.wer]
    if not others or not tiles:
        return f'<p class="story">{story}</p>' if best.method == "sf" else ""
    return f'<p class="story">{story} Its errors elsewhere:</p><ul class="tiles">{"".join(tiles)}</ul>'


def _tile(results: Results, best: Row, others: list[tuple[Row, str]], name: str) -> str:
    """A set's rate, compared; red where an LM does harm, green where all comparisons are gains beyond chance."""
    score = best.wer[name]
    lines, verdicts = [], []
    for row, label in others:
        if (other := row.wer.get(name)) is None:
            continue
        p = score.p_vs_none if label else score.p_vs_sf
        verdict = _verdict(score.wer, other.wer, p)
        change = (score.wer - other.wer) / other.wer * 100 if other.wer else 0.0
        chance = "" if verdict or p is None else "; the difference may be chance"
        direction = "fewer" if change < 0 else "more"
        against = f"{label or row.name.lower()} ({other.wer:.2f} %)"
        same = f"as many errors as {against}"
        lines.append(same if not change else f"{abs(change):.0f} % {direction} errors than {against}{chance}")
        verdicts.append(verdict)
    kind = "bad" if "worse" in verdicts else "good" if verdicts and all(verdicts) else ""
    rate = f"<strong>{score.wer:.2f} <small>% WER</small></strong>"
    told = "".join(f'<span class="fine">{escape(line)}</span>' for line in lines)
    return f'<li class="{kind}">{escape(name)}{rate}{told}</li>'


def _verdict(wer: float, other: float, p: float | None) -> str:
    """Better, worse, or nothing if that may be chance."""
    if p is None or p >= SIGNIFICANT or wer == other:
        return ""
    return "better" if wer < other else "worse"


def warnings_html(results: Results) -> str:
    if not results.warnings:
        return ""
    items = "".join(f"<li>{escape(warning)}</li>" for warning in results.warnings)
    return f'<div class="warning" role="note"><b>Mind these when you read the numbers</b><ul>{items}</ul></div>'


def about_html(results: Results) -> str:
    """Commands, versions, seed and times."""
    cards = []
    if results.commands:
        cards.append(_card("Commands", f"<pre>{escape(chr(10).join(results.commands))}</pre>"))
    versions: dict[str, Any] = dict(results.versions)
    if results.seed is not None:
        versions["seed"] = results.seed
    if versions:
        cards.append(_card("Made with", _list(versions)))
    if results.seconds:
        cards.append(_card("Time", _list({stage: _duration(seconds) for stage, seconds in results.seconds.items()})))
    decodes = {row.name: row.decodes for row in results.ordered if row.decodes is not None}
    if decodes:
        cards.append(_card("Decodes while tuning", _list(decodes)))
    return (
        f'<div class="facts">{"".join(cards)}</div>'
        if cards
        else '<p class="empty">The run says nothing of itself.</p>'
    )


def _card(title: str, body: str) -> str:
    return f'<div class="card"><h3>{title}</h3>{body}</div>'


def _list(facts: dict[str, Any]) -> str:
    return f"<dl>{''.join(f'<dt>{pretty(str(k))}</dt><dd>{escape(v)}</dd>' for k, v in facts.items())}</dl>"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
