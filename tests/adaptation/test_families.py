"""Adapting, tuning, decoding, transcribing and `generate` with recognisers of every family."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import fewer
from fewer.adaptation.processor import FusionProcessor
from fewer.data.style import Look
from fewer.data.tokenizers import load_tokenizer
from fewer.decoding.system import load_hotwords, load_system
from fewer.errors import FewerError
from fewer.recognisers.loader import around_model, load_recogniser
from fewer.search.beam import SearchOptions, beam_search
from fewer.store.lms import load_lm
from tests.recognisers.families import OTHERS, make_model
from tests.recognisers.test_families import Pair
from tests.recognisers.tiny import noises, write_manifest

TEXT = ["THE CAT IN THE HAT", "A HAT IN A CAT", "THE CAT SAT", "THEN A CAT"]


@pytest.fixture(scope="session", params=OTHERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_bundle_of_every_family(kind: str, tmp_path: Path) -> None:
    """It decodes and transcribes, and `generate` finds with it what its search finds."""
    base = make_model(tmp_path / "model", kind, ending=4.0)
    language = "en" if kind in ("cohere_asr", "canary") else None
    dev = write_manifest(tmp_path / "dev.jsonl", ["the cat", "a hat"], seed=1)
    text, out, (samples,) = tmp_path / "domain.txt", tmp_path / "bundle", noises(1)
    text.write_text("\n".join(TEXT) + "\n")
    given = {"text": text, "general": dev, "order": 2, "beam": 2, "language": language}
    facts = fewer.adapt(str(base), out, **given)  # type: ignore[arg-type]
    assert facts.method == "zero_encoder"
    assert facts.scales == {"lm": 0.3, "ilm": -0.3}
    model = fewer.load(out)
    assert len(model.decode(dev, tmp_path / "dev.nbest.jsonl")) == 2
    assert model.transcribe(samples.numpy()).duration == pytest.approx(len(samples) / 16000, abs=0.01)
    pair = Pair(kind, base)
    labels = pair.theirs.generate(
        **pair.inputs(samples),
        decoder_input_ids=torch.tensor([pair.ours.prompt]),
        logits_processor=[FusionProcessor.from_bundle(out, pair.theirs)],
        max_length=30,
    )[0, len(pair.ours.prompt) :].tolist()
    recogniser = around_model(pair.theirs, language)
    recogniser.defaults = replace(recogniser.defaults, longest_loop=0)  # `generate` does not drop loops
    fusion = load_system(recogniser, out / "lm.safetensors", out / "ilm").fusion(facts.scales)
    encoded, limit = recogniser.listen([samples]), torch.tensor([30 - len(pair.ours.prompt)])
    ((best, *_),) = beam_search(fusion, encoded, limit, SearchOptions(beam=1))
    assert tuple(label for label in labels if label != pair.ours.tokenizer.end) == best.tokens
    tuned = fewer.adapt(str(base), tmp_path / "tuned", **given, dev=dev, method="zero_encoder", budget=2)  # type: ignore[arg-type]
    assert tuned.dev is not None
    found = fewer.tune(
        str(base), dev, tmp_path / "tune", lm=out / "lm.safetensors", budget=2, beam=2, language=language
    )
    assert found["sf"].scales.terms.keys() == {"aed", "lm"}


def test_text_is_written_as_the_model_writes(kind: str, tmp_path: Path) -> None:
    recogniser = load_recogniser(make_model(tmp_path, kind), "en" if kind in ("cohere_asr", "canary") else None)
    style = recogniser.style(Look(cased=False, punctuated=False), lambda: {"bart": "Bart"})
    expected = {
        "speech_to_text": "the cat hat",  # a vocabulary of small letters
        "moonshine": "The cat; (hat).",  # bytes spell every sign
        "moonshine_streaming": "The cat; (hat).",
    }
    assert style("THE CAT; (HAT)") == expected.get(kind, "The cat, hat.")
    labels = recogniser.tokenizer.encode(style("THE CAT; (HAT)"))
    assert recogniser.tokenizer.unknown not in labels


def test_vocabularies_are_checked(kind: str, tmp_path: Path) -> None:
    """LMs of the labels fit; those of another tokenizer are refused; words and hotwords are spelled."""
    folder = make_model(tmp_path / "model", kind)
    tokenizer = load_recogniser(folder, "en" if kind in ("cohere_asr", "canary") else None).tokenizer
    assert load_tokenizer(folder).fingerprint == tokenizer.fingerprint
    text = tmp_path / "text.txt"
    text.write_text("the cat\na cat in a hat\n")
    fewer.ngram(text, tmp_path / "lm.arpa", tokenizer=folder, order=2)
    lm = load_lm(tmp_path / "lm.arpa", tokenizer)
    assert lm.vocab_size == tokenizer.size
    other = "\\data\\\nngram 1=4\n\n\\1-grams:\n-1 <s>\n-1 </s>\n-1 ▁zth\n-1 ▁q\n\n\\end\\\n"
    (tmp_path / "other.arpa").write_text(other)
    with pytest.raises(FewerError, match="another tokenizer than the recogniser's"):
        load_lm(tmp_path / "other.arpa", tokenizer)
    words = "\\data\\\nngram 1=4\n\n\\1-grams:\n-1 <s>\n-1 </s>\n-0.3 cat\n-0.7 hat\n\n\\end\\\n"
    (tmp_path / "words.arpa").write_text(words)
    by_words = load_lm(tmp_path / "words.arpa", tokenizer)
    spelled = torch.tensor([[*tokenizer.encode("cat"), tokenizer.end]])
    scores = by_words.log_probs(spelled).gather(2, spelled[..., None]).sum()
    assert float(scores) == pytest.approx(float(torch.tensor([-0.3, -1.0]).sum() * torch.tensor(10.0).log()), abs=1e-4)
    (tmp_path / "hot.txt").write_text("cat hat\n")
    load_hotwords(tmp_path / "hot.txt", tokenizer)


def test_other_prompts_of_generate_are_told(tmp_path: Path) -> None:
    pair = Pair("canary", make_model(tmp_path, "canary"))
    processor = FusionProcessor(load_system(pair.ours), {})
    given = [*pair.ours.prompt]
    given[3] = pair.ours.tokenizer.labels.index("<|de|>")
    with pytest.raises(FewerError, match="give the language for which they were loaded"):
        pair.theirs.generate(
            **pair.inputs(noises(1)[0]), decoder_input_ids=torch.tensor([given]), logits_processor=[processor]
        )
