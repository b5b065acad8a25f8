import csv
import io
import json
import re
from typing import Any

import pytest
from rich.console import Console

from fewer.errors import FewerError
from fewer.report.paper import paper_table, paper_tables
from fewer.report.results import Results, read_results, results_of
from fewer.report.tables import comma_separated, latex, markdown, print_table, table_json, write_tables


def score(wer: float, p: float | None = None, **more: Any) -> dict[str, Any]:
    return {"wer": wer, "low": wer - 0.5, "high": wer + 0.5, "p_vs_sf": p, **more}


def results(**changes: Any) -> Results:
    """Four methods, not in the paper's order, tuned on dev-other."""
    rows = [
        {"method": "mini_lstm", "name": "Mini-LSTM", "lm_scale": 0.64, "ilm_scale": 0.42, "ilm_ppl": 311.4,
         "ilm_ppl_set": "dev", "wer": {"dev-other": score(5.8, 0.0002), "test-other": score(6.5, 0.004)}},
        {"method": "dr", "name": "Density ratio", "lm_scale": 0.4, "ilm_scale": 0.2,
         "wer": {"dev-other": score(6.7, 0.2), "test-other": score(9.0, 0.02)}},
        {"method": "sf", "name": "Shallow fusion", "lm_scale": 0.35,
         "wer": {"dev-other": score(6.8), "test-other": score(7.6)}},
        {"method": "none", "name": "None",
         "wer": {"dev-other": score(10.4, 0.0001), "test-other": score(10.9, 0.0001)}},
    ]  # fmt: skip
    value = {"title": "A run", "tuned_on": "dev-other", "sets": ["dev-other", "test-other"], "rows": rows}
    return results_of({**value, "warnings": ["3 of 9 transcripts are in the text"], **changes})


def markdown_rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_rows_stand_in_the_papers_order() -> None:
    assert [row.key for row in results().ordered] == ["none", "sf", "dr", "mini_lstm"]
    assert [row[0] for row in markdown_rows(markdown(results()))[2:]] == [
        "None", "Shallow fusion", "Density ratio", "Mini-LSTM",
    ]  # fmt: skip
    assert [row["row"] for row in table_json(results())["rows"]] == ["none", "sf", "dr", "mini_lstm"]


def test_rows_of_one_recogniser_stay_together() -> None:
    rows = [
        {"method": method, "name": method, "row": f"{method}_{size}", "recogniser": size, "wer": {}}
        for method in ("sf", "none")
        for size in ("1000", "500")
    ]
    found = results(rows=rows)
    assert [row.key for row in found.ordered] == ["none_1000", "sf_1000", "none_500", "sf_500"]
    assert found.baseline(found.ordered[2]) == found.ordered[3]


def test_rows_of_a_table_of_the_paper_stand_as_printed_whatever_their_recogniser() -> None:
    methods = ["train_w_lm", "mini_lstm", "dr", "zero", "sf"]
    rows = [
        {"method": method, "name": method, "recogniser": "other" if method == "train_w_lm" else "aed", "wer": {}}
        for method in methods
    ]
    printed = ["sf", "dr", "train_w_lm", "zero", "mini_lstm"]
    assert [row.key for row in results(rows=rows, paper="2").ordered] == printed
    more = [*rows, {"method": "lodr", "name": "LODR", "recogniser": "aed", "wer": {}}]  # not in the paper
    assert [row.key for row in results(rows=more, paper="2").ordered] == [
        "train_w_lm", "sf", "dr", "zero", "mini_lstm", "lodr",
    ]  # fmt: skip


def test_every_form_marks_the_set_that_was_tuned_on_and_carries_the_warnings() -> None:
    forms = [markdown(results()), latex(results()), comma_separated(results())]
    console = Console(file=io.StringIO(), width=200)
    print_table(results(), console=console)
    forms.append(console.file.getvalue())  # type: ignore[attr-defined]
    for text in forms:
        assert "tuned on" in text
        assert "3 of 9 transcripts are in the text" in text
    head = markdown_rows(forms[0])[0]
    assert "tuned on" in head[3]
    assert "tuned on" not in head[4]
    value = table_json(results())
    assert value["tuned_sets"] == ["dev-other"]
    assert value["warnings"] == ["3 of 9 transcripts are in the text"]
    assert [row["wer"]["dev-other"]["tuned_on"] for row in value["rows"]] == [True] * 4
    assert [row["wer"]["test-other"]["tuned_on"] for row in value["rows"]] == [False] * 4


def test_a_set_of_another_name_with_the_same_utterances_counts_as_tuned_on() -> None:
    rows = [{"method": "sf", "name": "SF", "wer": {"a": score(5.0, utterances_fingerprint="f00"), "b": score(6.0)}}]
    found = results(rows=rows, sets=["a", "b"], tuned_on="dev", tuned_on_fingerprint="f00")
    assert (found.tuned("a"), found.tuned("b")) == (True, False)
    assert "a (tuned on) †" in markdown(found)


def test_marks_tell_significance_and_direction() -> None:
    rows = {row[0]: row for row in markdown_rows(markdown(results()))[2:]}
    assert rows["Mini-LSTM"][3:5] == [r"**5.80**\*\*\* [5.30–6.30]", r"**6.50**\*\* [6.00–7.00]"]
    assert rows["Density ratio"][3:5] == ["6.70 [6.20–7.20]", "9.00↑ [8.50–9.50]"]  # chance; significantly worse
    assert rows["None"][3].startswith("10.40↑")
    assert "*" not in rows["Shallow fusion"][3]


def test_a_set_that_a_row_lacks_is_a_dash() -> None:
    rows = [{"method": "sf", "name": "SF", "wer": {"dev-other": score(5.0)}}]
    assert markdown_rows(markdown(results(rows=rows)))[2][4] == "–"
    assert next(csv.DictReader(io.StringIO(comma_separated(results(rows=rows)))))["test-other wer"] == ""


def test_the_papers_numbers_stand_beside_ours() -> None:
    rows = markdown_rows(markdown(results(), "2"))
    assert rows[0] == [
        "Method", "λ1 (LM)", "paper", "λ2 (ILM)", "paper", "dev-other (tuned on) †", "paper", "test-other", "paper",
        "ILM PPL", "paper",
    ]  # fmt: skip
    best = rows[-1]
    assert [best[2], best[4], best[6], best[8], best[10]] == ["0.64", "0.42", "**5.76**", "**6.53**", "311"]
    found = results(paper="libri-lstm-ilme")
    assert markdown_rows(markdown(found)) == rows
    record = list(csv.DictReader(io.StringIO(comma_separated(found))))[1]
    assert record["paper dev-other"] == "6.80"
    assert table_json(found)["rows"][1]["paper"]["dev-clean"] == "2.68"


def test_the_papers_tables_are_as_printed() -> None:
    tables = paper_tables()
    assert [table.number for table in tables.values()] == [1, 2, 3, 4, 5, 6]
    assert [len(table.rows) for table in tables.values()] == [8, 9, 8, 8, 8, 8]
    assert paper_table("2").cell("sf", "dev-other") == "6.80"  # the same system in two tables
    assert paper_table("4").cell("sf_1000", "dev-other") == "6.81"
    assert paper_table("tab:cross-lstm").cell("mini_lstm", "TLv2-test") == "16.9"
    assert paper_table("5").cell("ctx_avg", "Hub5'01") == "12.4"  # a cell that spans two rows
    assert paper_table("5").is_bold("ctx_avg", "Hub5'01")
    assert paper_table("6").cell("ctx_avg", "λ2 (ILM)") == "0.42"
    assert paper_table("1").cell("zero", "ILM PPL") == "114.2"
    assert paper_table("1").column_of("hub5e00") == "Hub5'00"
    assert paper_table("3").column_of("test") == "TLv2-test"
    with pytest.raises(FewerError, match="libri-lstm-ilme"):
        paper_table("7")


def test_an_ablation_is_not_taken_for_the_papers_row() -> None:
    rows = [
        {"method": "enc_avg", "name": "E_D[h]", "wer": {}},
        {"method": "enc_avg", "row": "enc_avg_no_first", "name": "E_D[h], no special case", "wer": {}},
    ]
    found = table_json(results(rows=rows), "2")["rows"]
    assert [bool(row["paper"]) for row in found] == [True, False]


def test_names_cannot_break_a_table() -> None:
    rows = [{"method": "sf", "name": r"a|b & c_d $x% <i> \par [red]", "wer": {"dev-other": score(5.0)}}]
    hostile = results(rows=rows, title="T & {t}", warnings=["50 % of |x|"])
    assert len({len(row) for row in markdown_rows(markdown(hostile))}) == 1
    text = latex(hostile)
    body = [line for line in text.splitlines() if line.endswith((r"\\", r"\\ \hline"))]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in body} == {4}
    assert r"a|b \& c\_d \$x\% \textless{}i\textgreater{} \textbackslash{}par" in text
    assert re.sub(r"\\[{}]", "", text).count("{") == re.sub(r"\\[{}]", "", text).count("}")
    console = Console(file=io.StringIO(), width=200)
    print_table(hostile, console=console)
    assert "[red]" in console.file.getvalue()  # type: ignore[attr-defined]


def test_latex_writes_expectations_as_formulas() -> None:
    text = latex(results(rows=[{"method": "enc_avg", "name": "E_D[h]", "wer": {}}]))
    assert r"$\mathrm{E}_{\mathcal{D}}[h]$" in text
    assert r"$\lambda_1$ (LM) & $\lambda_2$ (ILM)" in text


def test_a_narrow_terminal_cuts_nothing_off() -> None:
    console = Console(file=io.StringIO(), width=72)
    print_table(results(), console=console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in text
    assert "6.00–7.00" in text


@pytest.mark.parametrize(("width", "intervals"), [(80, True), (60, False)])
def test_three_sets_with_long_names_are_whole_on_narrow_terminals(width: int, intervals: bool) -> None:
    names = ("target-dev", "target-test", "source-test")
    rows = [
        {"method": method, "name": "Decoder-like LM", "wer": {name: score(16.0) for name in names}}
        for method in ("sf", "zero")
    ]
    console = Console(file=io.StringIO(), width=width)
    print_table(results(rows=rows, sets=list(names), tuned_on="target-dev"), console=console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in text
    assert ("15.50–16.50" in text) == intervals


def test_files_are_written_in_four_forms(tmp_path: Any) -> None:
    (tmp_path / "results.json").write_text(results().model_dump_json(by_alias=True))
    files = write_tables(read_results(tmp_path), tmp_path / "tables")
    assert [file.name for file in files] == ["table.md", "table.tex", "table.csv", "table.json"]
    assert json.loads(files[3].read_text()) == table_json(results())
    records = list(csv.DictReader(io.StringIO(files[2].read_text())))
    assert float(records[3]["dev-other (tuned on) wer"]) == 5.8
    assert float(records[3]["test-other p_vs_sf"]) == 0.004


def test_wrong_results_are_explained(tmp_path: Any) -> None:
    with pytest.raises(FewerError, match=r"rows\.0\.wer\.dev\.wer"):
        results(rows=[{"method": "sf", "name": "SF", "wer": {"dev": {"wer": "high"}}}])
    with pytest.raises(FewerError, match="two rows are named sf"):
        results(rows=[{"method": "sf", "name": "SF", "wer": {}}, {"method": "sf", "name": "other", "wer": {}}])
    with pytest.raises(FewerError, match="no rows"):
        results(rows=[])
    with pytest.raises(FewerError, match=r"no results\.json"):
        read_results(tmp_path)
