from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer.errors import FewerError
from fewer.evaluation.normalise import load_normaliser
from fewer.evaluation.transcripts import Ranking, best, load_pairs
from fewer.evaluation.wer import score, word_errors
from fewer.report.blob import Blob
from fewer.report.lists import EXPONENTS, TextStore, pack_best, pack_list, pack_powers
from fewer.search.nbest import Header, LengthPolicy, NBest, read_header, read_nbest, write_nbest
from tests.report.runs import TERMS, World, random_lists, write_telephone_lists
from tests.report.unpacking import Unpacked


def pack(*paths: Path, normaliser: str = "none") -> Unpacked:
    """Lists of one set, named by their files, as the page gets them."""
    store, blob = TextStore(load_normaliser(normaliser)), Blob()
    packed = {path.stem: pack_list(path, path.stem, store, blob) for path in paths}
    lengths = np.unique(np.concatenate([lengths for _, lengths in packed.values()]))
    lists = {name: one for name, (one, _) in packed.items()}
    value = {"texts": {"set": store.pack("set", blob)}, "lists": {"set": lists}}
    return Unpacked(blob.encode({**value, "powers": pack_powers(lists.values(), lengths, blob)}))


def write(path: Path, lists: list[NBest], length: LengthPolicy | None = None) -> Path:
    write_nbest(path, Header(TERMS, {"aed": 1.0, "lm": 0.4, "ilm": -0.2}, length or LengthPolicy()), lists)
    return path


def expected(path: Path, ranking: Ranking) -> dict[str, str]:
    scales, policy = ranking.complete(read_header(path), path)
    return {nbest.id: best(nbest, scales, policy).text for nbest in read_nbest(path)}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.floats(0, 1.5), st.floats(0, 1.5), st.sampled_from(EXPONENTS))
def test_what_is_left_out_never_wins(
    tmp_path_factory: pytest.TempPathFactory, seed: int, lm: float, ilm: float, exponent: float
) -> None:
    path = write(tmp_path_factory.mktemp("lists") / "pool.jsonl", random_lists(seed, 6, 12))
    found = pack(path).best_texts("set", "pool", [1.0, lm, -ilm], exponent, 0.0)
    assert found == expected(path, Ranking({"lm": lm, "ilm": -ilm}, exponent))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.floats(0, 1.5), st.floats(0, 1.5), st.floats(-2, 4))
def test_what_is_left_out_never_wins_with_a_reward(
    tmp_path_factory: pytest.TempPathFactory, seed: int, lm: float, ilm: float, reward: float
) -> None:
    policy = LengthPolicy(exponent=0.0, reward=0.5)
    path = write(tmp_path_factory.mktemp("lists") / "pool.jsonl", random_lists(seed, 6, 12), policy)
    found = pack(path).best_texts("set", "pool", [1.0, lm, -ilm], 0.0, reward)
    assert found == expected(path, Ranking({"lm": lm, "ilm": -ilm}, 0.0, reward))


def test_a_tuned_point_outside_the_usual_range_is_within_the_sliders(tmp_path: Path) -> None:
    path = tmp_path / "pool.jsonl"
    header = Header(TERMS, {"aed": 1.0, "lm": 2.5, "ilm": -1.75}, LengthPolicy(exponent=0.725))
    write_nbest(path, header, random_lists(3, 8, 10))
    page = pack(path)
    one = page.value["lists"]["set"]["pool"]
    assert one["ranges"] == {"lm": [0.0, 2.5], "ilm": [0.0, 1.75]}
    assert 0.725 in one["exponents"]
    assert page.best_texts("set", "pool", [1.0, 2.5, -1.75], 0.725, 0.0) == expected(path, Ranking())


def test_texts_are_stored_once_and_aligned_as_they_are_scored(tmp_path: Path) -> None:
    world = World({"dev": 12}, ("sf", "zero"))
    from fewer.tuning.space import Scales

    scales = Scales({"aed": 1.0, "lm": 0.3, "ilm": -0.1})
    paths = [
        write(tmp_path / f"{name}.jsonl", world.decode("zero", "dev", scales, beam))
        for name, beam in (("a", 6), ("b", 9))
    ]
    page = pack(*paths)
    texts = page.value["texts"]["set"]
    starts = page.arrays[texts["starts"]]
    for u, ref in enumerate(texts["refs"]):
        of_utterance = texts["texts"][starts[u] : starts[u + 1]]
        assert len(set(of_utterance)) == len(of_utterance)
        for text, edits in zip(of_utterance, texts["edits"][starts[u] : starts[u + 1]], strict=True):
            errors = word_errors(ref, text)
            assert sum(kind != "=" for kind in edits) == errors.total
            assert len(edits) - edits.count("I") == errors.words
    assert page.value["lists"]["set"]["b"]["hypotheses"] == 12 * 9


def test_powers_are_pythons_own(tmp_path: Path) -> None:
    page = pack(write(tmp_path / "pool.jsonl", random_lists(0, 5, 5)))
    powers = page.value["powers"]
    lengths = page.arrays[powers["lengths"]].tolist()
    values = page.arrays[powers["values"]].reshape(len(powers["exponents"]), -1)
    for row, exponent in zip(values.tolist(), powers["exponents"], strict=True):
        assert row == [length**exponent for length in lengths]


def test_the_first_hypotheses_of_a_decode_are_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "decode.jsonl", random_lists(1, 5, 5))
    store, blob = TextStore(load_normaliser("none")), Blob()
    name = pack_best(path, "decode", store, blob)
    page = Unpacked(blob.encode({"texts": store.pack("set", blob)}))
    texts = page.value["texts"]
    found = [texts["texts"][s + t] for s, t in zip(page.arrays[texts["starts"]], page.arrays[name], strict=False)]
    assert found == [nbest.hypotheses[0].text for nbest in read_nbest(path)]


def test_with_a_glm_errors_are_counted_as_hubscr_does(tmp_path: Path) -> None:
    glm, path = write_telephone_lists(tmp_path)
    texts = pack(path, normaliser=f"glm:{glm}").value["texts"]["set"]
    pairs = load_pairs(path, normaliser=load_normaliser(f"glm:{glm}"))
    wanted = score(pairs.refs, pairs.hyps, rules="hubscr")
    assert wanted.errors.total < score(pairs.refs, pairs.hyps).errors.total
    assert texts["edits"] == ["".join(edit.kind for edit in edits) for edits in wanted.alignments]
    assert texts["items"][0] == ["I", "{ CAN NOT / CANNOT }", "(%HESITATION)", "GO"]
    assert texts["columns"][0] == [[0, "I", False], [1, "CANNOT", False], [2, None, False], [3, "GO", False]]
    assert all(len(edits) == len(columns) for edits, columns in zip(texts["edits"], texts["columns"], strict=True))


def test_files_that_do_not_fit_together_are_named(tmp_path: Path) -> None:
    lists = random_lists(1, 3, 3)
    first = write(tmp_path / "first.jsonl", lists)
    fewer = write(tmp_path / "fewer.jsonl", lists[:2])
    other = write(tmp_path / "other.jsonl", [*lists[:2], NBest("u2", lists[2].hypotheses, "another reference")])
    more = write(tmp_path / "more.jsonl", [*lists, NBest("u3", lists[2].hypotheses, "w1")])
    with pytest.raises(FewerError, match=r"fewer\.jsonl: utterance u2 is missing"):
        pack(first, fewer)
    with pytest.raises(FewerError, match=r"other\.jsonl: utterance u2 has another reference"):
        pack(first, other)
    with pytest.raises(FewerError, match=r"more\.jsonl: utterance u3 is not in"):
        pack(first, more)


def test_numbers_survive_packing() -> None:
    rng = np.random.default_rng(0)
    blob = Blob()
    floats, ints, small = rng.normal(size=50) * 1e3, rng.integers(-(10**6), 10**6, 40), rng.integers(0, 256, 30)
    names = blob.add("f", floats, "f64"), blob.add("i", ints, "i32", delta=True), blob.add("s", small, "u8")
    page = Unpacked(blob.encode({"a": "ü </script>"}))
    assert page.value["a"] == "ü </script>"
    for name, values in zip(names, (floats, ints, small), strict=True):
        assert page.arrays[name].tolist() == values.tolist()
    with pytest.raises(OverflowError, match="do not fit"):
        blob.add("x", np.array([256]), "u8")
