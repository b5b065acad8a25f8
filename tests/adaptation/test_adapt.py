"""Adapting a tiny random Whisper and a tiny recogniser of tones."""

import json
from pathlib import Path
from typing import Any

import pytest
from kaldialign import edit_distance

from fewer.adaptation import adapt as adapting
from fewer.adaptation.adapt import AdaptOptions, adapt
from fewer.adaptation.bundle import Length, load_bundle, read_bundle
from fewer.decoding.decode import decode
from fewer.decoding.system import load_system
from fewer.errors import FewerError
from fewer.evaluation.normalise import load_normaliser
from fewer.files import locked
from fewer.recognisers.whisper.recogniser import DEFAULTS
from fewer.search.beam import SearchOptions
from fewer.search.nbest import LengthPolicy, read_nbest
from tests.recognisers.tiny import make_whisper, write_manifest

TEXT = "THE CAT SAT IN THE HAT\nA CAT IN A HAT\nTHE HAT IN THE CAT\n"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_whisper(tmp_path_factory.mktemp("whisper"), seed=2, sharpness=0.2)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "domain.txt").write_text(TEXT)
    (folder / "words.txt").write_text("Cat\nhat\t2\n")
    write_manifest(folder / "dev.jsonl", ["the cat", "a hat in the cat", "the hat"])
    write_manifest(folder / "general.jsonl", ["in it", "a tin"], seed=3)
    write_manifest(folder / "audio.jsonl", [None] * 5, seed=5)
    return folder


def options(**values: Any) -> AdaptOptions:
    return AdaptOptions(**{"beam": 2, "budget": 2, "order": 2, **values})


def test_without_a_dev_set_scales_are_the_usual_ones(tiny: Path, data: Path, tmp_path: Path) -> None:
    facts = adapt(str(tiny), tmp_path / "b", options(text=(data / "domain.txt",), words=data / "words.txt"))
    assert facts == read_bundle(tmp_path / "b")
    assert facts.method == "zero_encoder"
    assert facts.scales == {"lm": 0.3, "ilm": -0.3, "words": 1.5}
    assert (facts.length.exponent, facts.length.reward) == (1.5, 0.0)  # as Whisper alone
    assert facts.end_scored_by == ("aed",)  # Whisper alone says where an utterance ends
    assert facts.text["lines"] == 3
    bundle = load_bundle(tmp_path / "b")
    assert set(bundle.fusion().terms) == {"aed", "ilm", "lm", "words"}
    decode(bundle.system, data / "dev.jsonl", tmp_path / "n.jsonl", bundle.scales, bundle.options)
    assert len(list(read_nbest(tmp_path / "n.jsonl"))) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "n.jsonl"]  # nothing else is left


def test_shallow_fusion_has_usual_scales_too(tiny: Path, data: Path, tmp_path: Path) -> None:
    facts = adapt(str(tiny), tmp_path / "b", options(text=(data / "domain.txt",), methods=("sf",)))
    assert (facts.method, facts.scales, facts.length.exponent) == ("sf", {"lm": 0.13}, 1.5)
    assert facts.ilm is None


def test_a_dev_set_chooses_and_a_general_set_is_reported(tiny: Path, data: Path, tmp_path: Path) -> None:
    sets = {"dev": data / "dev.jsonl", "general": data / "general.jsonl"}
    given = options(text=(data / "domain.txt",), words=data / "words.txt", transcripts=data / "domain.txt", **sets)
    facts = adapt(str(tiny), tmp_path / "b", given.model_copy(update={"methods": ("lodr", "sf")}))
    assert facts.dev is not None
    methods = facts.dev["methods"]
    assert list(methods) == ["none", "sf", "lodr"]
    assert all(1 <= value["decodes"] <= 2 for value in methods.values())
    assert facts.dev["set"] == "dev"
    best = min(value["wer"] for value in methods.values())
    assert methods[facts.dev["best"]]["wer"] == best
    # The base model stays as it is unless it is beaten significantly, which two utterances cannot show.
    assert (facts.method, facts.scales["lm"], facts.dev["kept"]) == ("none", 0.0, True)
    assert facts.dev["words"]["scale"] == facts.scales["words"]
    assert facts.general is not None
    assert facts.general["utterances"] == 2
    decode(load_system(tiny), data / "general.jsonl", tmp_path / "n.jsonl", {}, SearchOptions(2))
    lists = list(read_nbest(tmp_path / "n.jsonl"))
    normalise = load_normaliser("english").ref
    pairs = [(normalise(nbest.ref or ""), normalise(nbest.hypotheses[0].text)) for nbest in lists]
    errors = sum(edit_distance(ref.split(), hyp.split())["total"] for ref, hyp in pairs)
    assert facts.general["none"]["wer"] == pytest.approx(
        100 * errors / sum(len(ref.split()) for ref, _ in pairs), abs=1e-3
    )
    load_bundle(tmp_path / "b").fusion()


def test_what_does_not_help_beyond_doubt_is_not_added(
    tiny: Path,
    data: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plain = SearchOptions(2, LengthPolicy(1.5))
    decode(load_system(tiny), data / "general.jsonl", tmp_path / "n.jsonl", {}, plain)
    heard: list[str | None] = [nbest.hypotheses[0].text for nbest in read_nbest(tmp_path / "n.jsonl")]
    write_manifest(tmp_path / "dev.jsonl", heard, seed=3)  # the same noise: without an LM there is no error
    given = options(text=(data / "domain.txt",), dev=tmp_path / "dev.jsonl", methods=("sf",))
    facts = adapt(str(tiny), tmp_path / "b", given)
    assert facts.dev is not None
    assert facts.dev["plain"]["wer"] == 0.0
    assert facts.method == "none"
    assert facts.length == Length(exponent=1.5)  # as `fewer decode` searches without a bundle
    assert facts.scales == {"lm": 0.0}
    assert facts.lm == "lm.safetensors"  # it is there, for whoever wants it all the same
    assert load_bundle(tmp_path / "b").fusion().terms == ("aed",)
    assert "no LM does better than the recogniser alone" in caplog.text
    assert "dev: 2 utterances show large gains only" in caplog.text
    assert capsys.readouterr() == ("", "")  # not even a bar of transformers


def test_internal_lms_are_trained_on_what_the_model_makes_of_audio(tiny: Path, data: Path, tmp_path: Path) -> None:
    given = options(text=(data / "domain.txt",), audio=data / "audio.jsonl", methods=("lodr",))
    facts = adapt(str(tiny), tmp_path / "b", given)
    assert facts.method == "lodr"
    assert (tmp_path / "b" / "ilm" / "ngram.safetensors").exists()
    with pytest.raises(FewerError, match="this internal LM is trained: give --transcripts"):
        adapt(str(tiny), tmp_path / "c", options(text=(data / "domain.txt",), methods=("mini_lstm",)))


@pytest.mark.parametrize("method", ["enc_avg", "ctx_avg", "distilled"])
def test_internal_lms_that_hear_speech_are_estimated_on_the_audio(
    method: str, tiny: Path, data: Path, tmp_path: Path
) -> None:
    text = (data / "domain.txt",)
    facts = adapt(str(tiny), tmp_path / "b", options(text=text, audio=data / "audio.jsonl", methods=(method,)))
    assert facts.method == method
    write_manifest(tmp_path / "set.jsonl", ["the cat"] * 5, seed=5)
    adapt(str(tiny), tmp_path / "c", options(text=text, transcripts=tmp_path / "set.jsonl", methods=(method,)))
    with pytest.raises(FewerError, match=f"{method} is estimated on speech: give a set .* \\(--audio\\)"):
        adapt(str(tiny), tmp_path / "d", options(text=text, methods=(method,), transcripts=data / "domain.txt"))


def test_interrupted_it_goes_on_where_it_was(
    tiny: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = options(text=(data / "domain.txt",), dev=data / "dev.jsonl", methods=("sf",))
    monkeypatch.setattr(adapting, "write_bundle", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        adapt(str(tiny), tmp_path / "b", given)
    assert not (tmp_path / "b").exists()
    decodes = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("decodes/*.jsonl")}
    assert decodes
    monkeypatch.undo()
    kept: dict[Path, int] = {}
    write = adapting.write_bundle

    def written(*arguments: Any) -> None:
        kept.update({path: path.stat().st_mtime_ns for path in tmp_path.rglob("decodes/*.jsonl")})
        write(*arguments)

    monkeypatch.setattr(adapting, "write_bundle", written)
    adapt(str(tiny), tmp_path / "b", given)
    assert kept == decodes
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_what_other_calls_left_goes_unless_a_process_works_there(tmp_path: Path) -> None:
    given_up, used, of_another = (tmp_path / f".{name}.partial" for name in (f"b.{12 * 'a'}", f"b.{12 * 'b'}", "b.c.x"))
    for folder in (given_up, used, of_another):
        (folder / "tuning").mkdir(parents=True)
    with locked(used), adapting.workspace(tmp_path / "b", 64 * "c") as work:
        assert not given_up.exists()
        assert (used / "tuning").exists()
        assert (of_another / "tuning").exists()
        with (
            pytest.raises(FewerError, match="being made by another process"),
            adapting.workspace(tmp_path / "b", 64 * "c"),
        ):
            pass
        assert work.exists()
    assert sorted(tmp_path.iterdir()) == sorted([used, of_another])


def test_a_recogniser_of_its_own_kind(tones: Path, tmp_path: Path) -> None:
    (tmp_path / "domain.txt").write_text("AB CD, ab!\nabba\ndabc\n")
    given = options(text=(tmp_path / "domain.txt",), dev=tones / "dev.jsonl", methods=("zero",))
    facts = adapt(str(tones / "aed"), tmp_path / "b", given)
    assert facts.dev is not None
    assert facts.dev["normaliser"] == "none"
    assert facts.end_scored_by is None
    assert facts.text["labels"] == 8 + 1 + 4 + 1 + 4 + 1  # "ab cd ab": lower case, no marks
    load_bundle(tmp_path / "b").fusion()
    usual = adapt(str(tones / "aed"), tmp_path / "c", options(lm=str(tones / "lm")))
    assert usual.scales == {"lm": 0.3, "ilm": -0.2} != {"lm": DEFAULTS.lm, "ilm": -DEFAULTS.ilm}
    assert load_bundle(tmp_path / "c").length == LengthPolicy()
    assert usual.centred is False  # as in the paper


def test_words_alone_will_do(tiny: Path, data: Path, tmp_path: Path) -> None:
    facts = adapt(str(tiny), tmp_path / "b", options(words=data / "words.txt"))
    assert (facts.method, facts.scales, facts.lm) == ("none", {"words": 1.5}, None)


def test_a_word_level_arpa_and_a_hugging_face_lm_can_be_given(tiny: Path, data: Path, tmp_path: Path) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    arpa = tmp_path / "words.arpa"
    arpa.write_text("\\data\\\nngram 1=5\n\n\\1-grams:\n-2 <unk>\n-99 <s>\n-1 </s>\n-0.5 the\n-0.7 cat\n\n\\end\\\n")
    adapt(str(tiny), tmp_path / "b", options(lm=str(arpa)))
    assert load_bundle(tmp_path / "b").system.lm.words is not None  # type: ignore[union-attr]
    vocabulary = json.loads((tiny / "config.json").read_text())["vocab_size"]
    GPT2LMHeadModel(GPT2Config(vocab_size=vocabulary, n_embd=8, n_layer=1, n_head=1)).save_pretrained(tmp_path / "gpt")
    adapt(str(tiny), tmp_path / "c", options(lm=f"hf:{tmp_path / 'gpt'}"))
    assert load_bundle(tmp_path / "c").fusion().terms == ("aed", "ilm", "lm")
    assert not list((tmp_path / "c").rglob("*.bin"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, r"give text of the domain \(--text\)"),
        ({"text": ("empty.txt",)}, r"there is no text in .*empty\.txt"),
        ({"text": ("latin1.txt",)}, r"latin1\.txt, line 2: not UTF-8 text .* iconv -f WINDOWS-1252 -t UTF-8"),
        ({"text": ("utf16.txt",)}, r"utf16\.txt, line 1: not UTF-8 text .* iconv -f UTF-16 -t UTF-8"),
        ({"text": ("missing.txt",)}, r"cannot read .*missing\.txt: No such file"),
        ({"text": ("a.txt",), "lm": "lm.arpa"}, "give --text or --lm, not both"),
        ({"text": ("a.txt",), "dev": "missing.jsonl"}, r"cannot read .*missing\.jsonl"),
        ({"text": ("a.txt",), "methods": ("zeroo",)}, "there is no method zeroo"),
        ({"text": ("a.txt",), "methods": ("zero", "sf")}, "to choose among several methods a dev set is needed"),
        ({"words": "a.txt", "methods": ("zero",)}, "--method says how a language model is added"),
        ({"lm": "missing.arpa"}, r"missing\.arpa"),
        ({"lm": "other.arpa"}, r"other\.arpa is over labels of another tokenizer"),
        ({"words": "empty.txt"}, "holds no terms"),
        ({"text": ("a.txt",), "language": "de"}, "only transcribes English"),
    ],
)
def test_bad_input_is_refused_by_name_and_leaves_nothing(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: dict[str, Any], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("The cat.\n")
    Path("empty.txt").write_text("\n \n")
    Path("latin1.txt").write_bytes(b"the cat\nthe caf\xe9\n")
    Path("utf16.txt").write_bytes("the cat\n".encode("utf-16"))
    Path("other.arpa").write_text("\\data\\\nngram 1=4\n\n\\1-grams:\n-1 <s>\n-1 </s>\n-1 ▁th\n-1 e\n\n\\end\\\n")
    with pytest.raises(FewerError, match=message):
        adapt(str(tiny), "b", options(**values))
    assert not Path("b").exists()


def test_other_models_are_refused(tiny: Path, data: Path, tones: Path, tmp_path: Path) -> None:
    config = json.loads((tiny / "config.json").read_text())
    text = options(text=(data / "domain.txt",))
    for kind, message in (
        ("wav2vec2", "which is not an attention-based encoder-decoder recogniser"),
        (
            "speecht5",
            "an encoder-decoder that fewer does not know: its facts are missing; known are",
        ),
        ("voxtral", "it is a decoder-only model: audio is a prefix"),
        ("moonshine", r"cannot load the weights that .*config.json describes: .*was it downloaded whole"),
    ):
        folder = tmp_path / kind
        folder.mkdir()
        encoder_decoder = {"is_encoder_decoder": kind != "wav2vec2"}
        (folder / "config.json").write_text(json.dumps({"model_type": kind, **encoder_decoder}))
        with pytest.raises(FewerError, match=message):
            adapt(str(folder), tmp_path / "b", text)
    assert config["model_type"] == "whisper"
    with pytest.raises(FewerError, match=r"a recogniser .* is needed here"):
        adapt(str(tones / "lm"), tmp_path / "b", text)
    adapt(str(tiny), tmp_path / "b", text)
    with pytest.raises(FewerError, match="is a bundle already"):
        adapt(str(tmp_path / "b"), tmp_path / "c", text)
    with pytest.raises(FewerError, match="is there already"):
        adapt(str(tiny), tmp_path / "b", text)
