"""`fewer score` from the command line."""

import json
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fewer.cli.main import app
from fewer.errors import FewerError
from fewer.evaluation.wer import Errors, word_errors
from fewer.search.nbest import Header, Hypothesis, LengthPolicy, NBest, write_nbest
from tests.evaluation import sctk

SCALES = {"aed": 1.0, "lm": 0.3, "ilm": -0.1}
WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog"]


def run(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, ["score", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def random_lists(seed: int, utterances: int = 40) -> list[NBest]:
    rng = random.Random(seed)
    refs = random.Random(99)
    lists = []
    for i in range(utterances):
        ref = [refs.choice(WORDS) for _ in range(refs.randint(2, 10))]
        hypotheses = []
        for _ in range(6):
            words = [rng.choice(WORDS) if rng.random() < 0.2 else word for word in ref if rng.random() > 0.1]
            scores = {"aed": -10 * rng.random(), "lm": -20 * rng.random(), "ilm": -20 * rng.random()}
            hypotheses.append(Hypothesis(" ".join(words), tuple(range(len(words))), scores, len(words) + 1, 0.0))
        lists.append(NBest(f"s{i % 6}-{i}", tuple(hypotheses), " ".join(ref), f"s{i % 6}"))
    return lists


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    write_nbest(tmp_path / "pool.jsonl", Header(("aed", "lm", "ilm"), SCALES), random_lists(1))
    return tmp_path / "pool.jsonl"


def expected(lists: list[NBest], scales: dict[str, float], policy: LengthPolicy = LengthPolicy()) -> Errors:
    total = Errors()
    for nbest in lists:
        chosen = None
        for hypothesis in nbest.hypotheses:
            if chosen is None or hypothesis.rescored(scales, policy) > chosen.rescored(scales, policy):
                chosen = hypothesis
        assert chosen is not None
        assert nbest.ref is not None
        total += word_errors(nbest.ref, chosen.text)
    return total


def test_another_way_of_writing_is_pointed_out(tmp_path: Path) -> None:
    (tmp_path / "ref.trn").write_text("BY HARRY QUILTER M A (a-1)\nTHE FOX (a-2)\n")
    (tmp_path / "hyp.trn").write_text("by Harry Quilter, M.A. (a-1)\nA fox. (a-2)\n")
    hint = "1 of 2 utterances differ from their references in case and punctuation alone"
    arguments = ["score", str(tmp_path / "hyp.trn"), "--ref", str(tmp_path / "ref.trn")]
    assert hint in CliRunner().invoke(app, arguments).stderr
    assert hint not in CliRunner().invoke(app, [*arguments, "--normalise", "basic"]).stderr


def test_the_table_shows_the_rate_and_how_it_was_made(pool: Path) -> None:
    output = run(pool)
    first = sum((word_errors(nbest.ref or "", nbest.hypotheses[0].text) for nbest in random_lists(1)), Errors())
    assert f"{first.wer:.2f}" in output
    assert "bootstrap over 6 speakers" in output
    assert "fewest errors" in output


@pytest.mark.parametrize(("lm", "ilm"), [(0.0, 0.0), (0.37, 0.12), (1.5, 0.9)])
def test_other_scales_rank_the_pool_anew(tmp_path: Path, pool: Path, lm: float, ilm: float) -> None:
    run(pool, "--lm-scale", str(lm), "--ilm-scale", str(ilm), "--json", tmp_path / "out.json")
    errors = expected(random_lists(1), {"aed": 1.0, "lm": lm, "ilm": -ilm})
    value = json.loads((tmp_path / "out.json").read_text())
    assert value["wer"] == pytest.approx(errors.wer, abs=1e-4)
    assert (value["sub"], value["del"], value["ins"], value["words"]) == (
        errors.sub, errors.deletions, errors.ins, errors.words,
    )  # fmt: skip
    run(pool, "--scales", f"lm={lm},ilm={-ilm}", "--json", tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text())["wer"] == value["wer"]


def test_the_oracle_takes_the_best_hypothesis_of_each_list(tmp_path: Path, pool: Path) -> None:
    out = run(pool, "--oracle", "--json", tmp_path / "score.json")
    best = [min(word_errors(n.ref or "", h.text).total for h in n.hypotheses) for n in random_lists(1)]
    value = json.loads((tmp_path / "score.json").read_text())
    found = value["oracle"]
    assert found["sub"] + found["del"] + found["ins"] == sum(best)
    assert found["wer"] < value["wer"]
    assert "oracle" in out


def test_a_file_without_lists_has_no_oracle(tmp_path: Path) -> None:
    (tmp_path / "hyp").write_text("a the cat\n")
    with pytest.raises(FewerError, match="hyp is no N-best file, so it has no oracle"):
        run(tmp_path / "hyp", "--ref", tmp_path / "hyp", "--oracle")


def test_the_length_policy_is_an_option(tmp_path: Path, pool: Path) -> None:
    run(pool, "--exponent", "0", "--reward", "1.5", "--json", tmp_path / "out.json")
    errors = expected(random_lists(1), SCALES, LengthPolicy(0.0, 1.5))
    assert json.loads((tmp_path / "out.json").read_text())["wer"] == pytest.approx(errors.wer, abs=1e-4)


def test_two_systems_are_compared(tmp_path: Path, pool: Path) -> None:
    other = tmp_path / "other.jsonl"
    write_nbest(other, Header(("aed", "lm", "ilm"), SCALES), random_lists(2))
    output = run(pool, "--against", other, "--json", tmp_path / "out.json")
    value = json.loads((tmp_path / "out.json").read_text())
    comparison = value["against"]["comparison"]
    assert comparison["difference"] == pytest.approx(value["wer"] - value["against"]["result"]["wer"], abs=1e-3)
    assert 0 < comparison["p_bootstrap"] <= 1
    assert 0 < comparison["p_matched_pairs"] <= 1
    assert "\npool.jsonl " in output
    assert "\nother.jsonl " in output
    assert "paired bootstrap" in output
    assert "matched pairs" in output
    assert "better in" in run(pool, "--lm-scale", "1", "--against", pool)
    with pytest.raises(FewerError, match="cannot be compared with itself"):
        run(pool, "--against", pool)


def test_characters_speakers_and_alignments(tmp_path: Path, pool: Path) -> None:
    out, aligned = tmp_path / "out.json", tmp_path / "aligned.txt"
    output = run(pool, "--cer", "--per-speaker", "--alignments", aligned, "--json", out)
    value = json.loads(out.read_text())
    assert "CER" in output
    assert value["cer"]["cer"] > 0
    assert list(value["speakers"]) == [f"s{i}" for i in range(6)]
    assert sum(errors["words"] for errors in value["speakers"].values()) == value["words"]
    text = aligned.read_text()
    assert text.count("REF:") == text.count("HYP:") == 40
    assert "s0-0  sub" in text


def test_missing_hypotheses_are_listed_or_deleted(tmp_path: Path) -> None:
    (tmp_path / "ref.trn").write_text("a b (s-1)\nc d (s-2)\n")
    (tmp_path / "hyp.trn").write_text("a b (s-1)\n")
    with pytest.raises(FewerError, match="1 of 2 references have no hypothesis: s-2"):
        run(tmp_path / "hyp.trn", "--ref", tmp_path / "ref.trn")
    output = run(tmp_path / "hyp.trn", "--ref", tmp_path / "ref.trn", "--missing", "deletions")
    assert "50.00" in output
    assert "sclite's rules" in output


def test_the_normaliser_and_the_rules_can_be_chosen(tmp_path: Path) -> None:
    (tmp_path / "ref").write_text("u1 Hello, World!\n")
    (tmp_path / "hyp").write_text("u1 hello world\n")
    assert "100.00" in run(tmp_path / "hyp", "--ref", tmp_path / "ref")
    assert "0.00" in run(tmp_path / "hyp", "--ref", tmp_path / "ref", "--normalise", "librispeech")
    assert "sclite's rules" in run(tmp_path / "hyp", "--ref", tmp_path / "ref", "--rules", "sclite")


def test_telephone_sets_are_scored_by_stm_and_glm(tmp_path: Path) -> None:
    (tmp_path / "ref.stm").write_text(
        "f A ann 0 2 <O> (%hesitation) i can not go\nf A ann 2 3 ignore_time_segment_in_scoring\n"
    )
    (tmp_path / "hyp.ctm").write_text("f A 0.1 0.2 i\nf A 0.4 0.2 can't\nf A 0.8 0.2 g-\nf A 2.1 0.2 noise\n")
    (tmp_path / "x.glm").write_text(
        ";;\n* case_sensitive = 'F'\n;; INPUT_DEPENDENT_APPLICATION = \"ctm\"\n"
        "[CAN'T] => [{CAN NOT / CANNOT}] / [ ] __ [ ]\n"
    )
    arguments: list[str | Path] = [
        tmp_path / "hyp.ctm",
        "--ref",
        tmp_path / "ref.stm",
        "--normalise",
        f"glm:{tmp_path / 'x.glm'}",
    ]
    output = run(*arguments, "--write-ref", tmp_path / "out.stm", "--write-hyp", tmp_path / "out.ctm")
    assert "hubscr's rules" in output
    assert " 0.00" in output
    assert "(%HESITATION) I CAN NOT GO" in (tmp_path / "out.stm").read_text()


@sctk.needs("sclite", "csrfilt.sh", "rfilter1", "perl")
def test_csrfilt_and_sclite_score_a_telephone_set_alike(tmp_path: Path) -> None:
    rng = random.Random(4)
    words = ["uh", "can't", "cannot", "he's", "x-ray", "gonna", "go", "to", "he", "is", "not", "can", "going"]
    marked = [*words, "(uh)", "(he's going)", "go-", "{ go / going }", "%hesitation"]
    stm, ctm = [], []
    for channel in "AB":
        clock = 0.0
        for start in range(0, 80, 4):
            text = " ".join(rng.choice(marked) for _ in range(rng.randint(1, 9)))
            text = "IGNORE_TIME_SEGMENT_IN_SCORING" if rng.random() < 0.1 else text
            stm.append(f"f {channel} speaker{channel} {start} {start + 4} <O> {text}\n")
        while clock < 78:
            clock += rng.uniform(0.2, 1.2)
            ctm.append(f"f {channel} {clock:.2f} 0.30 {rng.choice(words)} 0.5\n")
    ref, hyp, glm = tmp_path / "ref.stm", tmp_path / "hyp.ctm", tmp_path / "x.glm"
    ref.write_text("".join(stm))
    hyp.write_text("".join(ctm))
    glm.write_text(
        ";;\n* case_sensitive = 'F'\nUH => %HESITATION / [ ] __ [ ]\n%HESITATION => (%HESITATION) / [ ] __ [ ]\n"
        'GONNA => GOING TO\n;; INPUT_DEPENDENT_APPLICATION = "ctm"\n'
        "[CAN'T] => [{CAN NOT / CANNOT}] / [ ] __ [ ]\n[HE'S] => [{HE IS / HE HAS}] / [ ] __ [ ]\n"
    )
    run(hyp, "--ref", ref, "--normalise", f"glm:{glm}", "--json", tmp_path / "out.json")
    for kind, side, path in (("stm", "ref", ref), ("ctm", "hyp", hyp)):
        filtered = sctk.run("csrfilt.sh", "-i", kind, "-t", side, "-dh", glm, text=path.read_text())
        (tmp_path / f"filtered.{kind}").write_text(filtered)
    theirs = sctk.sclite_counts(
        "-r", tmp_path / "filtered.stm", "stm", "-h", tmp_path / "filtered.ctm", "ctm", "-F", "-D"
    )
    correct, sub, deletions, ins = (sum(counts) for counts in zip(*(counts for _, counts in theirs), strict=True))
    value = json.loads((tmp_path / "out.json").read_text())
    assert (value["sub"], value["del"], value["ins"], value["words"]) == (
        sub,
        deletions,
        ins,
        correct + sub + deletions,
    )


@sctk.needs("sclite")
def test_sclite_agrees_on_the_files_that_were_written(tmp_path: Path, pool: Path) -> None:
    ref, hyp = tmp_path / "r.trn", tmp_path / "h.trn"
    run(pool, "--rules", "sclite", "--json", tmp_path / "out.json", "--write-ref", ref, "--write-hyp", hyp)
    theirs = sctk.sclite_counts("-r", ref, "trn", "-h", hyp, "trn", "-i", "rm")
    _, sub, deletions, ins = (sum(counts) for counts in zip(*(counts for _, counts in theirs), strict=True))
    value = json.loads((tmp_path / "out.json").read_text())
    assert (value["sub"], value["del"], value["ins"]) == (sub, deletions, ins)


def test_empty_references_are_told(tmp_path: Path) -> None:
    (tmp_path / "ref").write_text("u1 a\nu2\n")
    (tmp_path / "hyp").write_text("u1 a\nu2 b\n")
    result = CliRunner().invoke(app, ["score", str(tmp_path / "hyp"), "--ref", str(tmp_path / "ref")])
    assert "1 references are empty" in result.output
    assert "100.00" in result.output


def test_scales_given_twice_are_an_error(pool: Path) -> None:
    with pytest.raises(FewerError, match="say the same thing"):
        run(pool, "--lm-scale", "0.1", "--scales", "lm=0.2")
