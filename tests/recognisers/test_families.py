"""Every family of transformers' encoder-decoders gives transformers' own numbers, finds what `generate` finds, and each
context what transformers gives when its cross-attention is replaced."""

import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from fewer.data.hf_tokens import PieceTokenizer
from fewer.errors import FewerError
from fewer.ilm.config import IlmConfig
from fewer.ilm.estimate import estimate_ilm
from fewer.ilm.folder import load_ilm
from fewer.models.context import ConstantContext, Context
from fewer.models.encoded import Encoded
from fewer.recognisers.loader import load_recogniser
from fewer.recognisers.transformers.families import FAMILIES, family_of
from fewer.recognisers.transformers.recogniser import FamilyRecogniser
from fewer.search.beam import SearchOptions, beam_search
from fewer.search.fusion import Fusion
from fewer.search.scorer import first_labels
from tests.recognisers.families import OTHERS, make_model
from tests.recognisers.test_generate import Masked
from tests.recognisers.tiny import noises, write_manifest

LONGEST = 40  # labels that `generate` writes at most, those of the prompt counted
CLOSE = {"atol": 2e-5, "rtol": 1e-5}


class Pair:
    """A model as fewer and as transformers runs it."""

    def __init__(self, kind: str, folder: Path):
        self.kind, self.folder = kind, folder
        recogniser = load_recogniser(folder, "en" if kind in ("cohere_asr", "canary") else None)
        assert isinstance(recogniser, FamilyRecogniser)
        self.ours: FamilyRecogniser = recogniser
        model = getattr(transformers, FAMILIES[kind].model)
        self.theirs: Any = model.from_pretrained(folder, dtype=torch.float32).eval()

    def inputs(self, samples: Tensor) -> dict[str, Tensor]:
        """By the model's own processor."""
        extractor = transformers.AutoFeatureExtractor.from_pretrained(self.folder)
        options = {"pad_to_multiple_of": 80, "padding": True} if self.kind == "moonshine_streaming" else {}
        given = extractor(
            samples.numpy(), sampling_rate=16000, return_tensors="pt", return_attention_mask=True, **options
        )
        return {name: given[name] for name in (self.theirs.main_input_name, "attention_mask")}

    def log_probs(self, samples: Tensor, labels: Tensor) -> Tensor:
        """What transformers says of every label of one utterance. (1, N) -> (1, N, V)"""
        read = torch.cat([torch.tensor([self.ours.prompt]), labels[:, :-1]], dim=1)
        with torch.inference_mode():
            logits = self.theirs(**self.inputs(samples), decoder_input_ids=read).logits
        return logits[:, len(self.ours.prompt) - 1 :].log_softmax(-1)

    def labels(self, length: int = 9, rows: int = 1, seed: int = 1) -> Tensor:
        written = [id for id in range(self.ours.tokenizer.size) if id not in self.ours.tokenizer.special]
        chosen = torch.randint(len(written), (rows, length), generator=torch.Generator().manual_seed(seed))
        return torch.tensor(written)[chosen]

    @contextmanager
    def replaced(self, output: Callable[[int, Tensor], Tensor]) -> Iterator[None]:
        """Every cross-attention of transformers' model gives `output(layer, hidden)` instead of its own."""
        handles = [
            layer.encoder_attn.register_forward_hook(
                lambda module, args, kwargs, found, place=place: (
                    output(place, kwargs.get("hidden_states", args[0] if args else None)),
                    None,
                ),
                with_kwargs=True,
            )
            for place, layer in enumerate(self.theirs.model.decoder.layers)
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    @contextmanager
    def hearing(self, states: Tensor) -> Iterator[None]:
        """Every cross-attention of transformers' model attends to these states. (T, D)"""

        def other(module: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
            name = "key_value_states" if "key_value_states" in kwargs else "encoder_hidden_states"
            return args, {**kwargs, name: states[None], "attention_mask": None}

        layers = self.theirs.model.decoder.layers
        handles = [layer.encoder_attn.register_forward_pre_hook(other, with_kwargs=True) for layer in layers]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


@pytest.fixture(scope="session", params=OTHERS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair(request.param, make_model(tmp_path_factory.mktemp("family") / request.param, request.param))


def test_log_probabilities_are_those_of_transformers(pair: Pair) -> None:
    together, lm = pair.ours.listen(noises(3)), pair.ours.language_model(pair.ours.attention)
    labels = pair.labels(rows=3)
    ours = lm.log_probs(labels, together)
    assert len(set(together.lengths.tolist())) == 3
    for row, samples in enumerate(noises(3)):
        one = labels[row : row + 1]
        expected = pair.log_probs(samples, one)
        torch.testing.assert_close(ours[row : row + 1], expected, **CLOSE)
        torch.testing.assert_close(lm.log_probs(one, pair.ours.listen([samples])), expected, **CLOSE)


def compared(pair: Pair, samples: Tensor, beam: int, ends: bool) -> bool:
    """The search finds what `generate` finds, with the same score; whether it ended.

    ends: hypotheses may end. `generate` keeps ended hypotheses apart; fewer lets them compete in the beam, so both
    need not find the same then, unless they keep only one.
    """
    ours, end = pair.ours, pair.ours.tokenizer.end
    assert ours.suppress is not None
    never = ours.suppress.clone()
    never[end] = not ends
    with torch.inference_mode():
        outputs = pair.theirs.generate(
            **pair.inputs(samples),
            decoder_input_ids=torch.tensor([ours.prompt]),
            num_beams=beam,
            max_length=LONGEST,
            suppress_tokens=never.nonzero().flatten().tolist(),
            return_dict_in_generate=True,
            output_scores=True,
        )
    sequence = outputs["sequences"][0].tolist()
    assert sequence[: len(ours.prompt)] == ours.prompt
    found = tuple(label for label in sequence[len(ours.prompt) :] if label != end)
    fusion = Fusion([Masked(ours.scorer({}), never, never)], {"aed": 1.0}, end)
    limit = torch.tensor([LONGEST - len(ours.prompt)])
    ((best, *_),) = beam_search(fusion, ours.listen([samples]), limit, SearchOptions(beam=beam))
    assert best.tokens == found
    if beam > 1:
        assert best.score == pytest.approx(float(outputs["sequences_scores"][0]), abs=1e-4)
    return best.ended


def test_the_search_finds_what_generate_finds(pair: Pair) -> None:
    for samples in noises(2, seed=7):
        compared(pair, samples, beam=1, ends=True)
        compared(pair, samples, beam=4, ends=False)


def test_the_search_ends_where_generate_ends(tmp_path: Path) -> None:
    pair = Pair("canary", make_model(tmp_path, "canary", seed=1, ending=5.5))
    assert any([compared(pair, samples, beam=1, ends=True) for samples in noises(3)])


def test_a_moving_beam_scores_as_whole_texts(pair: Pair) -> None:
    """Random labels and parents, an utterance that is done: keys and values are found again, not computed again."""
    ours, generator = pair.ours, torch.Generator().manual_seed(3)
    terms: dict[str, Context] = {"mini": IlmConfig(method="mini_lstm").new_context(ours)}
    terms["seq_avg"] = IlmConfig(method="seq_avg").new_context(ours)
    torch.nn.init.normal_(terms["mini"].get_parameter("linear.weight"), std=0.3, generator=generator)
    encoded, scorer = ours.listen(noises(2)), ours.scorer(terms)
    memory, state = scorer.start(encoded)
    labels, alive, texts = first_labels(2), [0, 1], [list[int](), list[int]()]
    for step in range(12):
        log_probs, state = scorer.step(memory, state, labels)
        if step in (4, 11):
            for row, text in enumerate(texts):
                one = encoded.select(torch.tensor([alive[row // (len(texts) // len(alive))]]))
                for index, context in enumerate([ours.attention, *terms.values()]):
                    whole = ours.language_model(context).log_probs(torch.tensor([[*text, 0]]), one)
                    torch.testing.assert_close(log_probs[index, row], whole[0, -1], **CLOSE)
        keep = [0, 1] if step < 6 or len(alive) == 1 else [1]
        keep = keep[: len(alive)]
        width = len(texts) // len(alive)
        parents = torch.stack([place * width + torch.randint(width, (3,), generator=generator) for place in keep])
        labels = pair.labels(1, parents.numel(), seed=step)[:, 0]
        texts = [[*texts[parent], int(label)] for parent, label in zip(parents.flatten(), labels, strict=True)]
        if len(keep) < len(alive):
            memory, alive = scorer.select(memory, torch.tensor(keep)), [alive[place] for place in keep]
        state = scorer.reorder(state, parents)


def ilm_log_probs(pair: Pair, context: Context, labels: Tensor, encoded: Encoded) -> Tensor:
    with torch.inference_mode():
        return pair.ours.language_model(context).log_probs(labels, encoded if context.needs_encoder else None)


def test_contexts_are_what_transformers_gives_with_that_cross_attention(pair: Pair) -> None:
    ours, (samples,), labels = pair.ours, noises(1), pair.labels()
    encoded, layers, size = ours.listen([samples]), len(pair.ours.decoder.layers), pair.ours.decoder.size
    generator = torch.Generator().manual_seed(0)
    zero, learned, mini = (IlmConfig(method=name).new_context(ours) for name in ("zero", "learned", "mini_lstm"))
    for parameter in (learned.get_parameter("vector"), mini.get_parameter("linear.weight")):
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    read = torch.cat([torch.tensor([ours.prompt]), labels[:, :-1]], dim=1)
    says = mini.sequence(None, ours.decoder.embed(read))
    assert says is not None
    blocks = {
        "zero": (zero, torch.zeros(1, 1, layers, size)),
        "learned": (learned, learned.get_parameter("vector").view(1, 1, layers, size)),
        "mini_lstm": (mini, says.unflatten(-1, (layers, size))),
    }
    for context, added in blocks.values():
        with pair.replaced(lambda layer, hidden, added=added: added[..., layer, :].detach().expand_as(hidden)):  # type: ignore[misc]
            expected = pair.log_probs(samples, labels)
        torch.testing.assert_close(ilm_log_probs(pair, context, labels, encoded), expected, **CLOSE)
    means = {"zero_encoder": torch.zeros(1, size), "seq_avg": encoded.states[0].mean(0, keepdim=True)}
    for method, state in means.items():
        with pair.hearing(state.expand(7, -1)):
            expected = pair.log_probs(samples, labels)
        found = ilm_log_probs(pair, IlmConfig(method=method).new_context(ours), labels, encoded)
        torch.testing.assert_close(found, expected, **CLOSE)


def test_estimated_contexts_are_those_of_the_training_set(pair: Pair, tmp_path: Path) -> None:
    """E_D[h] and E_D[c] as plain means, silence as a recording, distilled and learned contexts by training."""
    ours, (samples,), labels = pair.ours, noises(1), pair.labels()
    train = write_manifest(tmp_path / "train.jsonl", ["the cat", "a hat in the", "the"], seed=5)
    found = dict[str, Context]()
    for method in ("enc_avg", "ctx_avg", "silence", "distilled", "learned", "mini_lstm"):
        config = IlmConfig(method=method, seconds=0.3, passes=1)
        estimate_ilm(ours, config, tmp_path / method, train, train)
        context = load_ilm(tmp_path / method, ours).context
        assert context is not None
        found[method] = context
    audio = noises(3, 5)
    quantised = [(one * 32767).clamp(-32768, 32767).short().float() / 32768 for one in audio]
    states = torch.cat([ours.listen([one]).states[0] for one in quantised])
    encoded = ours.listen([samples])
    with pair.hearing(states.mean(0, keepdim=True)):
        expected = pair.log_probs(samples, labels)
    torch.testing.assert_close(ilm_log_probs(pair, found["enc_avg"], labels, encoded), expected, atol=1e-4, rtol=1e-4)
    assert isinstance(found["ctx_avg"], ConstantContext)
    total, count = torch.zeros(ours.attention.size), 0
    for one, text in zip(quantised, ["the cat", "a hat in the", "the"], strict=True):
        given = torch.tensor([[*ours.tokenizer.encode(text), ours.tokenizer.end]])
        contexts = recorded(pair, one, given)
        total, count = total + contexts.sum(0), count + len(contexts)
    torch.testing.assert_close(found["ctx_avg"].vector, total / count, atol=1e-4, rtol=1e-4)
    recording = ours.silence * torch.from_numpy(_standard_normal(4800)).float()
    with pair.hearing(ours.listen([recording]).states[0]):
        expected = pair.log_probs(samples, labels)
    torch.testing.assert_close(ilm_log_probs(pair, found["silence"], labels, encoded), expected, **CLOSE)
    read = torch.cat([torch.tensor([ours.prompt]), labels[:, :-1]], dim=1)
    for method in ("distilled", "learned", "mini_lstm"):
        with torch.inference_mode():
            says = found[method].sequence(None, ours.decoder.embed(read))
        assert says is not None
        added = says.unflatten(-1, (len(ours.decoder.layers), ours.decoder.size))  # (1, 1 or N, layers, D)
        with pair.replaced(lambda layer, hidden, added=added: added[..., layer, :].expand_as(hidden)):  # type: ignore[misc]
            expected = pair.log_probs(samples, labels)
        torch.testing.assert_close(ilm_log_probs(pair, found[method], labels, encoded), expected, **CLOSE)


def _standard_normal(count: int) -> Any:
    import numpy as np

    return np.random.default_rng(1).standard_normal(count)


def recorded(pair: Pair, samples: Tensor, labels: Tensor) -> Tensor:
    """What transformers' cross-attentions add at each label. (1, N) -> (N, layers · D)"""
    said = list[Tensor]()
    layers = pair.theirs.model.decoder.layers
    handles = [layer.encoder_attn.register_forward_hook(lambda m, i, found: said.append(found[0])) for layer in layers]
    pair.log_probs(samples, labels)
    for handle in handles:
        handle.remove()
    return torch.cat(said, dim=-1)[0, len(pair.ours.prompt) - 1 :]


def test_the_tokenizer_writes_and_reads_as_transformers_does(pair: Pair) -> None:
    theirs = transformers.AutoTokenizer.from_pretrained(pair.folder)
    ours = pair.ours.tokenizer
    text = "the cat sat in a hat"
    ids = ours.encode(text)
    assert ids == theirs.encode(text, add_special_tokens=False)
    assert ours.decode([*ids, ours.end]) == text == theirs.decode(ids, skip_special_tokens=True).strip()
    again = type(ours).from_json(ours.to_json())
    assert again.fingerprint == ours.fingerprint
    assert again.encode(text) == ids
    assert [ours.word_start(id) for id in ids].count(True) == 6
    assert isinstance(ours, PieceTokenizer) == (pair.kind == "speech_to_text")


def test_shared_heads_and_untied_outputs_are_followed(tmp_path: Path) -> None:
    changes = {"num_key_value_heads": 2, "tie_word_embeddings": False, "head_dim": 8}
    pair = Pair("cohere_asr", make_model(tmp_path, "cohere_asr", **changes))
    labels, (samples,) = pair.labels(), noises(1)
    ours = pair.ours.language_model(pair.ours.attention).log_probs(labels, pair.ours.listen([samples]))
    torch.testing.assert_close(ours, pair.log_probs(samples, labels), **CLOSE)


def test_languages_and_tasks(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "canary", "canary")
    prompts = {
        (language, task): load_recogniser(folder, language, task)
        for language, task in (("de", "transcribe"), ("de", "translate"), ("en", "transcribe"))
    }
    assert len({recogniser.fingerprint for recogniser in prompts.values()}) == 3
    spelled = [prompts["de", "translate"].tokenizer.labels[id] for id in prompts["de", "translate"].prompt]  # type: ignore[attr-defined]
    assert spelled[3:5] == ["<|de|>", "<|en|>"]
    with pytest.raises(FewerError, match="knows 6 languages: say which one"):
        load_recogniser(folder)
    with pytest.raises(FewerError, match="it cannot detect languages itself: say which one"):
        load_recogniser(folder, detect=True)
    with pytest.raises(FewerError, match="'ja' is not one of this model: de, en"):
        load_recogniser(folder, "ja")
    cohere = make_model(tmp_path / "cohere", "cohere_asr")
    with pytest.raises(FewerError, match="only transcribes"):
        load_recogniser(cohere, "en", "translate")
    extractor = transformers.AutoFeatureExtractor.from_pretrained(cohere)
    theirs = transformers.CohereAsrProcessor(extractor, transformers.AutoTokenizer.from_pretrained(cohere))
    assert load_recogniser(cohere, "en").prompt == theirs.get_decoder_prompt_ids("en")  # type: ignore[attr-defined]
    bare = load_recogniser(make_model(tmp_path / "bare", "cohere_asr", decoder_start_token_id=None), "en")
    assert bare.prompt == [bare.tokenizer.labels.index("<s>"), *theirs.get_decoder_prompt_ids("en")]  # type: ignore[attr-defined]
    several = make_model(tmp_path / "s2t", "speech_to_text", languages=("de", "fr"))
    german = load_recogniser(several, "de")
    assert [german.tokenizer.labels[id] for id in german.prompt] == ["</s>", "<lang:de>"]  # type: ignore[attr-defined]


REQUEST = """{% set asked = messages[0]['content'][1] %}<|startofcontext|><|startoftranscript|><|emo:undefined|>\
<|{{ asked['source_language'] }}|><|{{ asked['target_language'] }}|>\
{{ '<|pnc|>' if asked['punctuation'] else '<|nopnc|>' }}<|noitn|><|notimestamp|><|nodiarize|>"""


@pytest.mark.parametrize("task", ["transcribe", "translate"])
def test_canarys_own_processor_asks_for_the_same(tmp_path: Path, task: str) -> None:
    """Its template, which comes with a checkpoint, writes what transformers' own tests of the real one expect."""
    pair = Pair("canary", make_model(tmp_path, "canary", seed=1, ending=5.5))
    ours, (samples,) = load_recogniser(tmp_path, "de", task), noises(1)
    assert isinstance(ours, FamilyRecogniser)
    extractor = transformers.AutoFeatureExtractor.from_pretrained(tmp_path)
    tokens = transformers.AutoTokenizer.from_pretrained(tmp_path)
    processor = transformers.CanaryProcessor(extractor, tokens, chat_template=REQUEST)
    written = "en" if task == "translate" else None
    inputs = processor.apply_transcription_request(samples.numpy(), source_language="de", target_language=written)
    assert inputs["decoder_input_ids"].tolist() == [ours.prompt]
    never = ours.suppress.nonzero().flatten().tolist() if ours.suppress is not None else None
    with torch.inference_mode():
        (sequence,) = pair.theirs.generate(**inputs, suppress_tokens=never, max_length=LONGEST).tolist()
    found = tuple(label for label in sequence[len(ours.prompt) :] if label != ours.tokenizer.end)
    fusion = Fusion([Masked(ours.scorer({}), ours.suppress, ours.suppress)], {"aed": 1.0}, ours.tokenizer.end)
    limit = torch.tensor([LONGEST - len(ours.prompt)])
    ((best, *_),) = beam_search(fusion, ours.listen([samples]), limit, SearchOptions(beam=1))
    assert best.tokens == found


def test_a_recogniser_goes_to_other_processes(pair: Pair) -> None:
    other = pickle.loads(pickle.dumps(pair.ours))
    (samples,), labels = noises(1), pair.labels()
    said = [one.language_model(one.attention).log_probs(labels, one.listen([samples])) for one in (pair.ours, other)]
    torch.testing.assert_close(said[1], said[0])


def test_utterances_of_a_gpu_are_heard_together_under_a_mask(pair: Pair) -> None:
    """What a GPU does, where utterances are one padded part instead of one each."""
    encoded, layer = pair.ours.listen(noises(3)), pair.ours.decoder.layers[0]
    hidden = torch.randn(3, 4, pair.ours.decoder.size, generator=torch.Generator().manual_seed(0))
    alone = [layer.hear(one[None, :n]) for one, n in zip(encoded.states, encoded.lengths.tolist(), strict=True)]
    together = layer.hear(encoded.states, encoded.mask[:, None, None])
    torch.testing.assert_close(layer.attend(hidden, [together]), layer.attend(hidden, alone), **CLOSE)


def test_long_and_short_audio(pair: Pair) -> None:
    with pytest.raises(FewerError, match=r"hears at most \d\d s at once"):
        pair.ours.listen([torch.zeros(50 * 16000)])
    short = pair.ours.listen([noises(1)[0][:16]])
    assert 0 < int(short.lengths[0]) < 10
    assert bool(short.states.isfinite().all())


def test_models_without_cross_attention_and_missing_classes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for config, message in (
        ({"model_type": "qwen3_asr"}, "decoder-only model: audio is a prefix"),
        ({"model_type": "parakeet_ctc", "architectures": ["ParakeetForCTC"]}, "no attention decoder"),
        (
            {"model_type": "bart"},
            r"'bart' .*, an encoder-decoder that fewer does not know: its facts are missing",
        ),
        (
            {"model_type": "of_tomorrow"},
            r"'of_tomorrow' .*, which is not an attention-based encoder-decoder",
        ),
    ):
        with pytest.raises(FewerError, match=message):
            family_of(config, "folder")
    lacking = replace(FAMILIES["canary"], model="CanaryOfTomorrow")
    monkeypatch.setitem(FAMILIES, "canary", lacking)
    with pytest.raises(FewerError, match=r"'canary' .*, which transformers .* it lacks CanaryOfTomorrow; pip install"):
        family_of({"model_type": "canary"}, "folder")


def test_real_models_find_what_generate_finds() -> None:
    """FEWER_MODELS names folders of real models, parted by colons; FEWER_WHISPER is for Whisper's own tests."""
    folders = os.environ.get("FEWER_MODELS", "").split(":")
    if folders == [""]:
        pytest.skip("FEWER_MODELS names no folders of real models")
    for folder in folders:
        pair = Pair(transformers.AutoConfig.from_pretrained(folder).model_type, Path(folder))
        labels, (samples,) = pair.labels(), noises(1)
        ours = pair.ours.language_model(pair.ours.attention).log_probs(labels, pair.ours.listen([samples]))
        torch.testing.assert_close(ours, pair.log_probs(samples, labels), atol=1e-3, rtol=1e-3)
        compared(pair, samples, beam=1, ends=True)
        compared(pair, samples, beam=4, ends=False)
