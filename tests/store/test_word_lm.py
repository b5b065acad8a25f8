"""A word-level ARPA file with Whisper's tokens."""

import math
from pathlib import Path

import pytest
import torch

from fewer.decoding.system import load_system
from fewer.recognisers.whisper.recogniser import WhisperRecogniser
from fewer.search.beam import SearchOptions, beam_search
from fewer.search.nbest import LengthPolicy
from tests.recognisers.tiny import noises

ARPA = "\\data\\\nngram 1=5\n\n\\1-grams:\n-2 <unk>\n-99 <s>\n-1 </s>\n-0.5 the\n-0.7 cat\n\n\\end\\\n"


@pytest.fixture
def arpa(tmp_path: Path) -> Path:
    path = tmp_path / "words.arpa"
    path.write_text(ARPA)
    return path


@pytest.mark.parametrize(("by", "end"), [(None, 0.0), (["aed", "lm"], -1.0)])
def test_every_word_is_scored_where_it_ends_even_the_last(
    whisper: WhisperRecogniser, arpa: Path, by: list[str] | None, end: float
) -> None:
    system = load_system(whisper, arpa, end_scored_by=by, centred=False)
    labels = [*whisper.tokenizer.encode("The cat. The CAT"), whisper.tokenizer.end]
    fusion = system.fusion({"lm": 1.0})
    memory, states = fusion.start(whisper.listen(noises(1)))
    said = 0.0
    for previous, label in zip([-1, *labels], labels, strict=False):
        _, log_probs, states = fusion.step(memory, states, torch.tensor([previous]), first=previous < 0)
        said += float(log_probs[fusion.terms.index("lm")][0, label])
    assert said / math.log(10) == pytest.approx(2 * (-0.5 - 0.7) + end, abs=1e-4)


def test_it_takes_part_in_the_search(whisper: WhisperRecogniser, arpa: Path) -> None:
    system, encoded = load_system(whisper, arpa), whisper.listen(noises(2))
    options = SearchOptions(4, LengthPolicy(0.0))
    for scale in (0.0, 2.0):
        fusion = system.fusion({"lm": scale})
        for hypotheses in beam_search(fusion, encoded, whisper.max_lengths(encoded), options, whisper.tokenizer.decode):
            for hypothesis in hypotheses:
                assert hypothesis.rescored(fusion.scales, options.length) == pytest.approx(hypothesis.score, abs=1e-3)
