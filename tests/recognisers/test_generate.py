"""fewer's beam search and transformers' `generate` find the same, and where they cannot, it is known why.

`generate` sets suppressed labels to -inf; fewer also renormalises the others, in every term alike. `generate` keeps
ended hypotheses apart; fewer lets them compete in the beam. On real speech, renormalisation changes one result in a
hundred, to one that is more likely in that sense, and the other difference none.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import soundfile
import torch
from torch import Tensor
from transformers import WhisperForConditionalGeneration

from fewer.models.encoded import Encoded
from fewer.recognisers.whisper.recogniser import WhisperRecogniser, load_whisper
from fewer.search.beam import SearchOptions, beam_search
from fewer.search.fusion import Fusion
from fewer.search.nbest import Hypothesis
from fewer.search.rules import Suppression
from fewer.search.scorer import Scorer
from tests.recognisers.tiny import extractor_of, make_whisper, noises

BEAM = 5


class Masked:
    """A scorer whose suppressed labels are -inf, the others as they were."""

    def __init__(self, scorer: Scorer, never: Tensor, first: Tensor):
        self.scorer, self.never, self.first = scorer, never, first
        self.terms, self.vocab_size = scorer.terms, scorer.vocab_size
        self.start, self.reorder, self.select = scorer.start, scorer.reorder, scorer.select

    def step(self, memory: Any, state: Any, labels: Tensor) -> tuple[Tensor, Any]:
        log_probs, state = self.scorer.step(memory, state, labels)
        return log_probs.masked_fill(self.first if int(labels[0]) < 0 else self.never, float("-inf")), state


def search(whisper: WhisperRecogniser, encoded: Encoded, renormalise: bool = True) -> list[Hypothesis]:
    scorer: Any = whisper.scorer({})
    assert whisper.suppress is not None
    assert whisper.suppress_first is not None
    masks: tuple[Any, Any] = (whisper.suppress, whisper.suppress_first)
    if not renormalise:
        scorer, masks = Masked(scorer, *masks), (None, None)
    fusion = Fusion([scorer], {"aed": 1.0}, whisper.tokenizer.end, [Suppression(*masks)])
    lists = beam_search(fusion, encoded, whisper.max_lengths(encoded), SearchOptions(beam=BEAM))
    return [hypotheses[0] for hypotheses in lists]


def generate(model: Any, whisper: WhisperRecogniser, samples: Tensor, **speech: str) -> tuple[list[int], float]:
    """The labels, the end label among them, and the score of transformers' best hypothesis.

    speech: language and task, of a multilingual model.
    """
    mel = extractor_of(whisper)(samples.numpy(), sampling_rate=16000, return_tensors="pt").input_features
    with torch.inference_mode():
        outputs = model.generate(mel, num_beams=BEAM, return_dict_in_generate=True, output_scores=True, **speech)
    sequence = outputs["sequences"][0].tolist()
    assert sequence[: len(whisper.prompt)] == whisper.prompt
    return sequence[len(whisper.prompt) :], float(outputs["sequences_scores"][0])


@pytest.mark.parametrize("sharpness", [0.2, 0.5])
def test_without_renormalisation_the_search_finds_what_generate_finds(tmp_path: Path, sharpness: float) -> None:
    ended = 0
    for seed in range(3):
        folder = make_whisper(tmp_path / str(seed), seed=seed, sharpness=sharpness)
        whisper, model = load_whisper(folder), WhisperForConditionalGeneration.from_pretrained(folder).eval()
        for samples in noises(3, seed):
            labels, score = generate(model, whisper, samples)
            encoded = whisper.listen([samples])
            best = search(whisper, encoded, renormalise=False)[0]
            assert best.tokens == tuple(label for label in labels if label != whisper.tokenizer.end)
            assert best.score == pytest.approx(score, abs=1e-4)
            ended += best.ended
    assert (ended > 0) == (sharpness < 0.5)


def test_a_multilingual_model_finds_what_generate_finds_in_that_language(tmp_path: Path) -> None:
    folder = make_whisper(tmp_path, multilingual=True, seed=2, sharpness=0.5)
    model = WhisperForConditionalGeneration.from_pretrained(folder).eval()
    (samples,), found = noises(1), set()
    for language, task in (("de", "transcribe"), ("de", "translate"), ("en", "transcribe")):
        whisper = load_whisper(folder, language, task)
        labels, score = generate(model, whisper, samples, language=language, task=task)
        best = search(whisper, whisper.listen([samples]), renormalise=False)[0]
        assert best.tokens == tuple(label for label in labels if label != whisper.tokenizer.end)
        assert best.score == pytest.approx(score, abs=1e-4)
        found.add(best.score)
    assert len(found) == 3


def test_generates_score_is_the_mean_log_probability_of_its_labels(whisper: WhisperRecogniser, theirs: Any) -> None:
    for samples in noises(3):
        labels, score = generate(theirs, whisper, samples)
        given = torch.tensor([labels])
        log_probs = whisper.language_model(whisper.attention).log_probs(given, whisper.listen([samples]))
        assert float(log_probs.gather(2, given[..., None]).mean()) == pytest.approx(score, abs=1e-4)


def test_renormalisation_is_what_makes_the_difference(whisper: WhisperRecogniser) -> None:
    """Each label's score is larger by what the suppressed labels would have had."""
    encoded = whisper.listen(noises(2))
    for row, best in enumerate(search(whisper, encoded)):
        labels = [*best.tokens, whisper.tokenizer.end] if best.ended else list(best.tokens)
        one = encoded.select(torch.tensor([row]))
        assert best.score == pytest.approx(renormalised_score(whisper, one, labels), abs=1e-3)


def renormalised_score(whisper: WhisperRecogniser, encoded: Encoded, labels: list[int]) -> float:
    """Mean log-probability of labels among those that are not suppressed."""
    probs = whisper.language_model(whisper.attention).log_probs(torch.tensor([labels]), encoded)[0].exp()
    masks = [whisper.suppress_first, *[whisper.suppress] * (len(labels) - 1)]
    steps = zip(probs, labels, masks, strict=True)
    return sum(float((step[label] / step[~mask].sum()).log()) for step, label, mask in steps) / len(labels)


def test_on_real_speech_the_hypotheses_are_those_of_generate_but_for_renormalisation(
    real: Path, real_manifest: Path
) -> None:
    whisper = load_whisper(real)
    model = WhisperForConditionalGeneration.from_pretrained(real, dtype=torch.float32).eval()
    lines = real_manifest.read_text().splitlines()
    cuts = [json.loads(line) for line in lines[:: max(len(lines) // 20, 1)][:20]]
    audio = []
    for cut in cuts:
        samples, rate = soundfile.read(cut["recording"]["sources"][0]["source"], dtype="float32")
        assert rate == 16000
        audio.append(torch.from_numpy(samples[: whisper.features.max_samples]))
    same = 0
    for cut, samples in zip(cuts, audio, strict=True):
        labels, score = generate(model, whisper, samples)
        encoded, words = whisper.listen([samples]), tuple(label for label in labels if label != whisper.tokenizer.end)
        plain, best = (search(whisper, encoded, renormalise)[0] for renormalise in (False, True))
        assert plain.tokens == words, cut["id"]
        assert plain.score == pytest.approx(score, abs=1e-4)
        same += best.tokens == words
        if best.tokens != words:
            assert best.score > renormalised_score(whisper, encoded, labels)
    assert same >= 0.9 * len(cuts)
