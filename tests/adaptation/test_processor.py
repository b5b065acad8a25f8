"""`generate` with a FusionProcessor finds what fewer's own search finds, and reads each label once."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import WhisperForConditionalGeneration, WhisperTokenizerFast, pipeline

from fewer.adaptation.bundle import Base, BundleFacts, Length, write_bundle
from fewer.adaptation.processor import FusionProcessor
from fewer.decoding.system import System, load_system
from fewer.errors import FewerError
from fewer.ilm.config import IlmConfig
from fewer.ilm.estimate import estimate_ilm
from fewer.recognisers.whisper.recogniser import WhisperRecogniser, around_whisper
from fewer.search.beam import SearchOptions, beam_search
from fewer.search.nbest import Hypothesis, LengthPolicy
from fewer.store.ngram_files import save_ngram
from fewer.training.ngram import estimate
from tests.recognisers.tiny import extractor_of, make_whisper, noises

BEAM = 4
SCALES = {"lm": 0.3, "ilm": -0.2}


class Parts:
    """A Whisper as transformers runs it, an n-gram of its labels and its internal LM."""

    def __init__(self, folder: Path, seed: int = 0, sharpness: float = 0.3):
        self.base = make_whisper(folder / "whisper", seed=seed, sharpness=sharpness)
        self.model = WhisperForConditionalGeneration.from_pretrained(self.base, dtype=torch.float32).eval()
        self.whisper = around_whisper(self.model)
        self.whisper.defaults = replace(self.whisper.defaults, longest_loop=0)  # `generate` does not drop loops
        tokenizer = self.whisper.tokenizer
        labels = torch.randint(0, 60, (405,), generator=torch.Generator().manual_seed(seed))
        labels[8::9] = tokenizer.end
        save_ngram(folder / "lm.safetensors", estimate(labels, 3, tokenizer.size, tokenizer.end), tokenizer.labels)
        estimate_ilm(self.base, IlmConfig(method="zero"), folder / "ilm")
        self.lm, self.ilm = folder / "lm.safetensors", folder / "ilm"

    def system(self, end_scored_by: list[str] | None = None) -> System:
        return load_system(self.whisper, self.lm, self.ilm, end_scored_by=end_scored_by)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    return Parts(tmp_path_factory.mktemp("parts"))


def mels(whisper: WhisperRecogniser, audio: list[Tensor]) -> Tensor:
    extractor = extractor_of(whisper)
    return extractor([one.numpy() for one in audio], sampling_rate=16000, return_tensors="pt").input_features


def generated(
    parts: Parts, processor: FusionProcessor, audio: list[Tensor], beam: int = BEAM
) -> list[tuple[tuple[int, ...], float]]:
    """Labels and score of each utterance's best hypothesis."""
    outputs = parts.model.generate(
        mels(parts.whisper, audio),
        num_beams=beam,
        logits_processor=[processor],
        length_penalty=processor.length_penalty,
        return_dict_in_generate=True,
        output_scores=True,
    )
    given, end = len(parts.whisper.prompt), parts.whisper.tokenizer.end
    labels = [tuple(label for label in row[given:] if label != end) for row in outputs["sequences"].tolist()]
    return list(zip(labels, outputs["sequences_scores"].tolist(), strict=True))


def searched(parts: Parts, system: System, audio: list[Tensor], length: LengthPolicy) -> list[Hypothesis]:
    encoded = parts.whisper.listen(audio)
    limits = parts.whisper.max_lengths(encoded)
    lists = beam_search(system.fusion(SCALES), encoded, limits, SearchOptions(BEAM, length))
    return [hypotheses[0] for hypotheses in lists]


@pytest.mark.parametrize(("seed", "sharpness"), [(0, 0.2), (1, 0.25), (0, 0.5)])
def test_generate_finds_the_hypotheses_and_scores_of_the_search(tmp_path: Path, seed: int, sharpness: float) -> None:
    parts = Parts(tmp_path, seed, sharpness)
    audio = noises(2, seed)
    processor = FusionProcessor(parts.system(), SCALES)
    best = searched(parts, parts.system(), audio, LengthPolicy())
    for (labels, score), hypothesis in zip(generated(parts, processor, audio), best, strict=True):
        assert labels == hypothesis.tokens
        assert score == pytest.approx(hypothesis.score, abs=1e-4)


def forced(parts: Parts, system: System, samples: Tensor, labels: tuple[int, ...], length: LengthPolicy) -> float:
    """The score that fewer's search gives to these labels, with the end label if there is room for it."""
    fusion, total = system.fusion(SCALES), 0.0
    encoded, end = parts.whisper.listen([samples]), parts.whisper.tokenizer.end
    scored = [*labels, end][: int(parts.whisper.max_lengths(encoded)[0])]
    memory, states = fusion.start(encoded)
    for last, label in zip([-1, *scored], scored, strict=False):
        combined, _, states = fusion.step(memory, states, torch.tensor([last]), first=last < 0)
        total += float(combined[0, label])
    return length.score(total, len(scored))


def test_length_and_end_label_policies_are_the_searchs(parts: Parts) -> None:
    """`generate` keeps ended hypotheses apart, so it may choose another one than the search; its score is the same."""
    audio, found = noises(2), set()
    for length, by in ((LengthPolicy(1.0, 0.4), ["aed"]), (LengthPolicy(0.5, 0.0), ["aed", "lm", "ilm"])):
        system = parts.system(by)
        for (labels, score), samples in zip(
            generated(parts, FusionProcessor(system, SCALES, length), audio), audio, strict=True
        ):
            assert score == pytest.approx(forced(parts, system, samples, labels, length), abs=1e-4)
            found.add(round(score, 4))
    assert len(found) == 4


class Counted:
    """A language model that counts its steps and the rows that are read in them."""

    def __init__(self, lm: Any):
        self.lm, self.vocab_size, self.rows = lm, lm.vocab_size, list[int]()

    def start(self, rows: int) -> Any:
        return self.lm.start(rows)

    def step(self, state: Any, labels: Tensor) -> tuple[Tensor, Any]:
        self.rows.append(len(labels))
        return self.lm.step(state, labels)


def test_each_label_is_read_once(parts: Parts) -> None:
    system = parts.system()
    counted: Any = Counted(system.lm)
    processor = FusionProcessor(System(parts.whisper, counted), {"lm": 0.3})
    calls = 0
    call = processor.__call__

    def noted(input_ids: Tensor, scores: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return call(input_ids, scores)

    audio = noises(2)
    for _ in range(2):  # a second utterance starts anew
        counted.rows.clear()
        calls = 0
        parts.model.generate(mels(parts.whisper, audio), num_beams=BEAM, logits_processor=[noted])
        assert calls > 3
        assert counted.rows == [2 * BEAM] * calls


def test_rows_are_found_by_their_labels_wherever_they_are(parts: Parts) -> None:
    """The score of any prefix is that of the terms, teacher-forced, in any order of rows."""
    system, prompt, mask = parts.system(), torch.tensor(parts.whisper.prompt), parts.whisper.suppress
    assert system.lm is not None
    assert mask is not None
    processor = FusionProcessor(System(parts.whisper, system.lm), {"lm": 0.3})
    generator = torch.Generator().manual_seed(0)
    rows = torch.empty(6, 0, dtype=torch.long)
    for step in range(5):
        scores = torch.randn(6, parts.whisper.tokenizer.size, generator=generator)
        given = torch.cat([prompt.expand(6, -1), rows], dim=1)
        found = processor(given, scores)
        fresh = FusionProcessor(System(parts.whisper, system.lm), {"lm": 0.3})  # has to read the whole prefix
        torch.testing.assert_close(found, fresh(given, scores))
        if step:
            lm = system.lm.log_probs(torch.cat([rows, rows[:, :1]], dim=1))[:, -1]
            terms = [part.masked_fill(mask, float("-inf")).log_softmax(-1) for part in (scores, lm)]
            terms[1][:, parts.whisper.tokenizer.end] = 0.0
            torch.testing.assert_close(found[:, ~mask], (terms[0] + 0.3 * terms[1])[:, ~mask], atol=1e-5, rtol=1e-5)
        parents = torch.randint(0, 6, (6,), generator=generator)
        labels = torch.randint(0, 60, (6, 1), generator=generator)
        rows = torch.cat([rows[parents], labels], dim=1)


def test_suppressed_labels_never_come_and_greedy_search_works(parts: Parts) -> None:
    processor = FusionProcessor(parts.system(), SCALES)
    sequences = parts.model.generate(
        mels(parts.whisper, noises(3)), num_beams=1, logits_processor=[processor], do_sample=False
    )
    mask = parts.whisper.suppress
    assert mask is not None
    assert not mask[sequences[:, len(parts.whisper.prompt) :]].any()


def test_text_before_the_prompt_is_not_read(parts: Parts) -> None:
    whisper = parts.whisper
    processor = FusionProcessor(parts.system(), SCALES)
    scores = torch.randn(2, whisper.tokenizer.size, generator=torch.Generator().manual_seed(0))
    before = torch.tensor([whisper.tokenizer.labels.index("<|startofprev|>"), 7, 8, 9])
    rows = torch.tensor(whisper.prompt).expand(2, -1)
    assert torch.equal(processor(torch.cat([before.expand(2, -1), rows], dim=1), scores), processor(rows, scores))


def test_a_bundle_is_added_in_three_lines(parts: Parts, tmp_path: Path) -> None:
    whisper = parts.whisper
    facts = BundleFacts(
        base=Base(source=str(parts.base), fingerprint=whisper.fingerprint, tokenizer=whisper.tokenizer.fingerprint),
        method="zero",
        scales=SCALES,
        share=0.5,
        length=Length(exponent=1.0, reward=0.2),
        lm="lm.safetensors",
        ilm="ilm",
    )
    write_bundle(tmp_path / "bundle", facts, {"lm.safetensors": parts.lm, "ilm": parts.ilm})
    audio, length = noises(1), LengthPolicy(1.0, 0.2)
    processor = FusionProcessor.from_bundle(tmp_path / "bundle", parts.model)
    same = FusionProcessor.from_models(parts.model, parts.lm, 0.3, parts.ilm, 0.2, length=length)
    ((labels, score),) = generated(parts, processor, audio)
    assert generated(parts, same, audio) == [(labels, pytest.approx(score, abs=1e-5))]
    assert score == pytest.approx(forced(parts, parts.system(), audio[0], labels, length), abs=1e-4)


@pytest.fixture(scope="module", params=["checkpoint", "loaded"])
def half(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A bundle and its Whisper in half precision: its checkpoint is, or it was loaded so."""
    import fewer

    folder = tmp_path_factory.mktemp(request.param)
    base = make_whisper(folder / "whisper")
    if request.param == "checkpoint":
        WhisperForConditionalGeneration.from_pretrained(base).half().save_pretrained(base)
    (folder / "domain.txt").write_text("a cat in a hat\nthe cat\na tin cat\n")
    fewer.adapt(base, folder / "bundle", text=folder / "domain.txt", order=2, beam=2)
    dtype = "auto" if request.param == "checkpoint" else torch.float16
    return folder / "bundle", WhisperForConditionalGeneration.from_pretrained(base, dtype=dtype).eval()


def test_half_precision_scores_as_full_precision_does(half: tuple[Path, Any]) -> None:
    bundle, model = half
    assert model.dtype == torch.float16
    whole = WhisperForConditionalGeneration.from_pretrained(model.config.name_or_path, dtype=torch.float32).eval()
    mel = mels(around_whisper(whole), noises(2))
    totals = []
    for one in (model, whole):
        processor = FusionProcessor.from_bundle(bundle, one)
        options = {"logits_processor": [processor], "num_beams": 1, "do_sample": False, "max_new_tokens": 3}
        found = one.generate(mel.to(one.dtype), output_scores=True, return_dict_in_generate=True, **options)
        totals.append(found["scores"][0])  # of the first label
    kept = totals[1] > -1e4
    torch.testing.assert_close(totals[0][kept], totals[1][kept], atol=0.05, rtol=0.01)


def test_another_models_weights_in_half_precision_are_refused(half: tuple[Path, Any], tmp_path: Path) -> None:
    other = WhisperForConditionalGeneration.from_pretrained(make_whisper(tmp_path, seed=5), dtype=torch.float16)
    with pytest.raises(FewerError, match=r"whose weights .* are not those of the model given"):
        FusionProcessor.from_bundle(half[0], other)
    changed = WhisperForConditionalGeneration.from_pretrained(half[1].config.name_or_path, dtype=torch.float16)
    with torch.no_grad():
        changed.model.decoder.layer_norm.bias += 1
    with pytest.raises(FewerError, match=r"whose weights .* are not those of the model given"):
        FusionProcessor.from_bundle(half[0], changed)


def test_the_pipeline_of_transformers_in_chunks(parts: Parts) -> None:
    """Of one chunk it gives what `generate` gives; of several the same whether one by one or together."""
    tokenizer = WhisperTokenizerFast.from_pretrained(parts.base)
    extractor = extractor_of(parts.whisper)
    recognise = pipeline(
        "automatic-speech-recognition",
        model=parts.model,
        tokenizer=tokenizer,
        feature_extractor=extractor,
        chunk_length_s=1,
        ignore_warning=True,
    )
    processor = FusionProcessor(parts.system(), {"lm": 1.0, "ilm": -0.5})
    options = {"logits_processor": [processor], "num_beams": 2, "length_penalty": processor.length_penalty}

    def text(samples: Tensor, batch: int = 1, **options: Any) -> str:
        given = {"raw": samples.numpy(), "sampling_rate": 16000}
        return recognise(given, batch_size=batch, generate_kwargs=options)["text"]

    short, long = noises(1)[0], torch.cat(noises(3))
    labels = parts.model.generate(mels(parts.whisper, [short]), **options)
    alone, chunked = text(short, **options), text(long, **options)
    assert alone == tokenizer.decode(labels[0], skip_special_tokens=True)
    assert chunked == text(long, batch=3, **options)
    assert len(chunked) > len(alone)
    assert chunked != text(long, num_beams=2)


def test_what_generate_cannot_give_is_refused(parts: Parts, tmp_path: Path) -> None:
    estimate_ilm(parts.base, IlmConfig(method="seq_avg"), tmp_path / "mean")
    with pytest.raises(FewerError, match="'seq_avg' hears the utterance"):
        FusionProcessor.from_models(parts.model, ilm=tmp_path / "mean")
    processor = FusionProcessor(parts.system(), SCALES)
    start = torch.tensor([parts.whisper.prompt[:1]])
    with pytest.raises(FewerError, match="return_timestamps=False"):
        processor(start, torch.zeros(1, parts.whisper.tokenizer.size))


def test_the_package_imports_no_transformers_before_it_is_used() -> None:
    program = "import sys, fewer; assert 'transformers' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
