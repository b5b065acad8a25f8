"""Language models in transformers' own `generate`, for those who stay with it.

processor = FusionProcessor.from_bundle("bundle", model)  # or .from_models(model, lm="lm.arpa", lm_scale=0.1)
options = {"logits_processor": [processor], "num_beams": 5, "length_penalty": processor.length_penalty}
model.generate(mel, **options)  # or pipeline("automatic-speech-recognition", …)(audio, generate_kwargs=options)
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fewer.adaptation.bundle import load_bundle, read_bundle
from fewer.decoding.system import System, load_system
from fewer.errors import FewerError
from fewer.recognisers.loader import around_model
from fewer.search.fusion import signed
from fewer.search.nbest import LengthPolicy
from fewer.search.scorer import State, TreeState, first_labels

try:
    from transformers import LogitsProcessor
except ImportError as error:
    raise FewerError("generate() is of transformers: pip install 'fewer[hf]'") from error


class Given(TreeState):
    """The recogniser's own term, which `generate` has computed: it is the memory of each step. (rows, V)"""

    terms: Sequence[str] = ("aed",)

    def __init__(self, vocab_size: int):
        self.vocab_size = vocab_size

    def start(self, encoded: Any) -> tuple[None, None]:
        return None, None

    def step(self, memory: Tensor, state: None, labels: Tensor) -> tuple[Tensor, None]:
        return memory[None], state


class FusionProcessor(LogitsProcessor):
    """Adds what fewer's search adds to each label's score: the same terms, masks and end-label policy.

    The state of every term is kept for each hypothesis and found again by its labels, wherever `generate` has moved
    it. So each call reads one new label of each row, and no prefix is scored twice.
    """

    def __init__(self, system: System, scales: Mapping[str, float], length: LengthPolicy = LengthPolicy()):
        """system: its recogniser is the model whose `generate` is called."""
        recogniser = system.recogniser
        recogniser.prompt_length(torch.tensor(getattr(recogniser, "prompt", [])))  # complains of one without `generate`
        if system.ilm is not None and system.ilm.context is not None and system.ilm.context.needs_encoder:
            raise FewerError(
                f"the internal LM '{system.ilm.config.method}' hears the utterance, which `generate` does not pass on: "
                "take another method, or `fewer transcribe`"
            )
        self.fusion = system.fusion(scales, system.scorers(Given(recogniser.tokenizer.size)))
        self.prompt_length = recogniser.prompt_length
        self.reward, self.length_penalty = length.reward, length.exponent
        self.rows: dict[bytes, int] = {}  # labels of each row of the last call -> its place
        self.states: list[State] = []

    @classmethod
    def from_bundle(cls, folder: str | Path, model: Any) -> "FusionProcessor":
        """What `fewer adapt` found for this …ForConditionalGeneration."""
        facts = read_bundle(folder)
        bundle = load_bundle(folder, around_model(model, facts.language, facts.task))
        return cls(bundle.system, bundle.scales, bundle.length)

    @classmethod
    def from_models(
        cls,
        model: Any,
        lm: str | Path | None = None,
        lm_scale: float | None = None,
        ilm: str | Path | None = None,
        ilm_scale: float | None = None,
        words: str | Path | None = None,
        words_scale: float | None = None,
        length: LengthPolicy = LengthPolicy(),
        language: str | None = None,
        task: str = "transcribe",
    ) -> "FusionProcessor":
        """A language model, an internal LM that is subtracted, and hotwords, for a given model.

        Scales that are not given are as usual for it.
        """
        system = load_system(around_model(model, language, task), lm, ilm, words=words)
        sources = {"lm": lm, "ilm": ilm, "words": words}
        usual = system.recogniser.defaults.scales([term for term, source in sources.items() if source is not None])
        given = {"lm": lm_scale, "ilm": ilm_scale, "words": words_scale}
        scales = signed(usual | {term: scale for term, scale in given.items() if term in usual and scale is not None})
        return cls(system, scales, length)

    @torch.no_grad()
    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """(rows, prompt and labels), (rows, V) -> (rows, V)"""
        labels = input_ids[:, self.prompt_length(input_ids[0]) :].to(self.fusion.device)  # (rows, n)
        aed = scores.float().to(self.fusion.device).log_softmax(-1)
        states, last = self._before(labels)
        memory = [aed, *[None] * (len(self.fusion.scorers) - 1)]
        combined, _, self.states = self.fusion.step(memory, states, last, first=not labels.shape[1])
        self.rows = {prefix: row for row, prefix in enumerate(_keys(labels))}
        return (combined + self.reward).to(scores)

    def _before(self, labels: Tensor) -> tuple[list[State], Tensor]:
        """The states before each row's last label, and that label. (rows, n) -> …, (rows,)"""
        if not labels.shape[1]:
            return self._start(len(labels)), first_labels(len(labels), self.fusion.device)
        parents = [self.rows.get(prefix) for prefix in _keys(labels[:, :-1])]
        if None in parents:  # labels that were given, not found by a search with this processor
            return self._read(labels[:, :-1]), labels[:, -1]
        return self.fusion.reorder(self.states, torch.tensor(parents, device=self.fusion.device)), labels[:, -1]

    def _start(self, rows: int) -> list[State]:
        _, states = self.fusion.start(range(rows))
        return states

    def _read(self, labels: Tensor) -> list[State]:
        """The states after all of these labels, read one by one. (rows, n)"""
        states = self._start(len(labels))
        nothing = torch.zeros(len(labels), self.fusion.vocab_size, device=self.fusion.device)
        for column in [first_labels(len(labels), self.fusion.device), *labels.T]:
            new = []
            for scorer, state in zip(self.fusion.scorers, states, strict=True):
                new.append(scorer.step(nothing if isinstance(scorer, Given) else None, state, column)[1])
            states = new
        return states


def _keys(labels: Tensor) -> list[bytes]:
    return [row.tobytes() for row in labels.cpu().contiguous().numpy()]
