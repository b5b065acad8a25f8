"""Bundles of `fewer adapt`: whole folders, for one recogniser."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from fewer.adaptation.bundle import Base, Bundle, BundleFacts, Length, load_bundle, read_bundle, write_bundle
from fewer.adaptation.searching import Models, Options, load_search
from fewer.errors import FewerError
from fewer.ilm.config import IlmConfig
from fewer.ilm.estimate import estimate_ilm
from fewer.recognisers.loader import load_recogniser
from fewer.recognisers.whisper.recogniser import WhisperRecogniser
from fewer.search.beam import beam_search
from fewer.search.scorer import first_labels
from fewer.store.ngram_files import save_ngram
from fewer.training.ngram import estimate
from tests.recognisers.tiny import make_whisper, noises


@pytest.fixture(scope="module")
def made(tiny: Path, whisper: WhisperRecogniser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with an n-gram, an internal LM and a list of words."""
    folder = tmp_path_factory.mktemp("parts")
    tokenizer = whisper.tokenizer
    stream = torch.tensor([*tokenizer.encode("the cat"), tokenizer.end, *tokenizer.encode("a cat"), tokenizer.end])
    save_ngram(folder / "lm.safetensors", estimate(stream, 2, tokenizer.size, tokenizer.end), tokenizer.labels)
    estimate_ilm(tiny, IlmConfig(method="zero"), folder / "ilm")
    (folder / "ilm" / "scratch.tmp").write_text("not a part of a model")
    (folder / "words.txt").write_text("cat\t2\n")
    parts = {"lm": "lm.safetensors", "ilm": "ilm", "words": "words.txt"}
    facts = BundleFacts(
        base=Base(source=str(tiny), fingerprint=whisper.fingerprint, tokenizer=tokenizer.fingerprint),
        method="zero",
        scales={"lm": 0.15, "ilm": -0.15, "words": 1.0},
        length=Length(exponent=0.0, reward=0.1),
        end_scored_by=("aed",),
        beam=3,
        **parts,
    )
    write_bundle(folder / "bundle", facts, {name: folder / name for name in parts.values()})
    return folder / "bundle"


def changed(made: Path, folder: Path, **values: Any) -> Path:
    """A copy whose bundle.json says something else."""
    shutil.copytree(made, folder)
    facts = json.loads((folder / "bundle.json").read_text())
    (folder / "bundle.json").write_text(json.dumps(facts | values))
    return folder


def texts(bundle: Bundle) -> list[str]:
    encoded = bundle.recogniser.listen(noises(3))  # type: ignore[attr-defined]
    limits = bundle.recogniser.max_lengths(encoded)
    lists = beam_search(bundle.fusion(), encoded, limits, bundle.options, bundle.recogniser.tokenizer.decode)
    return [hypotheses[0].text for hypotheses in lists]


def test_what_was_written_is_loaded(made: Path, whisper: WhisperRecogniser) -> None:
    bundle = load_bundle(made)
    assert bundle.scales == {"lm": 0.15, "ilm": -0.15, "words": 1.0}
    assert (bundle.length.exponent, bundle.length.reward, bundle.options.beam) == (0.0, 0.1, 3)
    assert set(bundle.fusion().terms) == {"aed", "ilm", "lm", "words"}
    assert texts(bundle) == texts(load_bundle(made, whisper))  # a loaded base model will do
    assert sorted(path.name for path in made.rglob("*.*")) == [
        "bundle.json",
        "context.safetensors",
        "ilm.json",
        "lm.safetensors",
        "words.txt",
    ]


def test_models_whose_scale_is_zero_take_no_part(made: Path, tmp_path: Path, whisper: WhisperRecogniser) -> None:
    folder = changed(made, tmp_path / "b", scales={"lm": 0.0, "ilm": 0.0, "words": 0.0}, method="none")
    (folder / "lm.safetensors").unlink()
    bundle = load_bundle(folder, whisper)
    assert bundle.fusion().terms == ("aed",)
    assert bundle.scales == {}


def test_a_bundle_of_an_older_version_is_centred_as_new_ones_are(
    made: Path, tmp_path: Path, whisper: WhisperRecogniser, caplog: pytest.LogCaptureFixture
) -> None:
    folder = changed(made, tmp_path / "old", format="fewer-bundle/1")
    facts = json.loads((folder / "bundle.json").read_text())
    del facts["centred"], facts["checksums"]  # which older versions did not write
    (folder / "bundle.json").write_text(json.dumps(facts))
    old, never = load_bundle(folder, whisper), load_bundle(changed(made, tmp_path / "never", centred=False), whisper)
    assert [message.endswith("adapt again to add them") for message in caplog.messages] == [True]  # no checksums
    encoded = whisper.listen(noises(2))
    steps = [bundle.fusion() for bundle in (old, never)]
    centred, plain = (fusion.step(*fusion.start(encoded), first_labels(2), first=True)[1] for fusion in steps)
    terms = steps[0].terms
    expected = plain[terms.index("aed")].exp().masked_fill(whisper.suppress_first, 0.0)  # (2, V)
    for term in ("lm", "ilm"):
        found, raw = centred[terms.index(term)], plain[terms.index(term)]
        mean = (expected * raw).sum(-1, keepdim=True)
        said = ~whisper.suppress_first  # the end is among those that never come first
        torch.testing.assert_close(found[:, said], (raw - mean)[:, said], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(centred[terms.index("words")], plain[terms.index("words")])


def test_other_scales_than_its_own_bring_its_models_back(
    made: Path, tmp_path: Path, whisper: WhisperRecogniser
) -> None:
    folder = changed(made, tmp_path / "b", scales={"lm": 0.0, "ilm": -0.1, "words": 0.0}, method="none")
    bundle = load_bundle(folder, whisper, {"lm": 0.3, "ilm": 0.0})
    assert bundle.fusion().terms == ("aed", "lm")
    assert bundle.scales == {"lm": 0.3}
    search = load_search(Models(folder), Options(lm_scale=0.2, ilm_scale=0.1, words_scale=2.0))
    assert search.scales == {"lm": 0.2, "ilm": -0.1, "words": 2.0}


def test_only_the_same_base_model_will_do(made: Path, tmp_path: Path) -> None:
    other = make_whisper(tmp_path / "other", seed=1)
    with pytest.raises(FewerError, match=r"was made for .*whose weights .* are not those of the model given"):
        load_bundle(made, other)
    facts = json.loads((made / "bundle.json").read_text())
    folder = changed(made, tmp_path / "b", base=facts["base"] | {"tokenizer": "0" * 64})
    with pytest.raises(FewerError, match="whose tokenizer is another one"):
        load_bundle(folder)


def test_a_base_model_that_has_moved_can_be_given(made: Path, tiny: Path, tmp_path: Path) -> None:
    facts = json.loads((made / "bundle.json").read_text())
    folder = changed(made, tmp_path / "b", base=facts["base"] | {"source": str(tmp_path / "gone")})
    with pytest.raises(FewerError, match=r"gone, which is not there any more; say where it is now \(--base\)"):
        load_bundle(folder)
    assert load_bundle(folder, tiny).scales


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"format": "fewer-bundle/3"}, "install a newer one"),
        ({"format": "something"}, "is not a fewer-bundle file"),
        ({"lm": "../lm.safetensors"}, "a file of the bundle has a plain name"),
        ({"lm": ".."}, "a file of the bundle has a plain name"),
        ({"lm": "/etc/passwd"}, "a file of the bundle has a plain name"),
        ({"lm": "x" * 5000}, "a file of the bundle has a plain name"),
        ({"beam": 5000}, "beam: Input should be less than or equal to 1000"),
        ({"scales": {"lm": 1e308}}, "scales.lm: Input should be less than"),
        ({"length": []}, "length: Input should be"),
        ({"checksums": {}}, "lm.safetensors is not a file that .*bundle.json lists"),
        ({"lm": None}, "'lm' has the scale 0.15, but the bundle has no such model"),
        ({"scales": {"lm": "much"}}, "scales"),
        ({"lm": "other.arpa"}, "other.arpa of bundle.json is missing; copy all of it"),
        ({"surprise": 1}, "unknown key 'surprise'"),
        ({"end_scored_by": []}, "bundle.json.*: end_scored_by names none of the terms"),
        ({"end_scored_by": ["ctc"]}, "bundle.json.*: end_scored_by names none of the terms"),
    ],
)
def test_what_cannot_be_right_is_refused(
    made: Path, tmp_path: Path, whisper: WhisperRecogniser, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(FewerError, match=message):
        load_bundle(changed(made, tmp_path / "b", **values), whisper)


@pytest.mark.parametrize("name", ["lm.safetensors", "words.txt", "ilm/ilm.json", "ilm/context.safetensors"])
def test_a_flipped_bit_is_found(made: Path, tmp_path: Path, whisper: WhisperRecogniser, name: str) -> None:
    folder = changed(made, tmp_path / "b")
    data = bytearray((folder / name).read_bytes())
    data[-3] ^= 1
    (folder / name).write_bytes(data)
    with pytest.raises(FewerError, match=f"b/{name} is damaged or was changed"):
        load_bundle(folder, whisper)


def test_files_that_were_not_written_are_refused(made: Path, tmp_path: Path, whisper: WhisperRecogniser) -> None:
    folder = changed(made, tmp_path / "b")
    (folder / "ilm" / "ngram.safetensors").write_bytes(b"")
    with pytest.raises(FewerError, match=r"ngram\.safetensors is not a file that .* lists"):
        load_bundle(folder, whisper)
    (folder / "ilm" / "ngram.safetensors").unlink()
    (folder / "ilm" / "context.safetensors").unlink()
    with pytest.raises(FewerError, match=r"is not complete: ilm/context\.safetensors is missing"):
        load_bundle(folder, whisper)


def test_links_lead_neither_into_a_bundle_nor_out_of_it(made: Path, tmp_path: Path, whisper: WhisperRecogniser) -> None:
    folder = changed(made, tmp_path / "b")
    (folder / "words.txt").rename(tmp_path / "words.txt")
    (folder / "words.txt").symlink_to(tmp_path / "words.txt")
    with pytest.raises(FewerError, match=r"words\.txt is a link"):
        load_bundle(folder, whisper)
    lm = tmp_path / "lm"
    lm.mkdir()
    (tmp_path / "secret.txt").write_text("a secret")
    (lm / "notes.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(FewerError, match=r"notes\.txt is a link to a file elsewhere"):
        write_bundle(tmp_path / "new", read_bundle(made), {"lm": lm})
    assert not (tmp_path / "new").exists()


def test_a_bundle_is_no_model_and_other_folders_are_no_bundles(made: Path, tiny: Path) -> None:
    with pytest.raises(FewerError, match="is a bundle of `fewer adapt`, not a model"):
        load_recogniser(made)
    with pytest.raises(FewerError, match=r"is not a bundle of `fewer adapt`: it has no bundle\.json"):
        read_bundle(tiny)


def test_a_bundle_is_whole_or_absent_and_never_overwritten(made: Path, tmp_path: Path) -> None:
    facts = read_bundle(made)
    with pytest.raises(FewerError, match="neither a file nor a folder"):
        write_bundle(tmp_path / "b", facts, {"lm.safetensors": tmp_path / "missing"})
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FewerError, match="is there already"):
        write_bundle(made, facts, {})
