"""Every way to estimate Whisper's internal LM, from manifest to search."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fewer.data.batches import UtteranceConfig
from fewer.data.manifest import Manifest
from fewer.decoding.decode import decode
from fewer.decoding.perplexity import measure
from fewer.decoding.system import load_system
from fewer.errors import FewerError
from fewer.files import read_json, write_json
from fewer.ilm.config import IlmConfig
from fewer.ilm.estimate import estimate_ilm
from fewer.ilm.folder import load_ilm
from fewer.ilm.transcripts import BEAM, own_transcripts
from fewer.models.context import ConstantContext
from fewer.models.encoded import length_mask
from fewer.recognisers.whisper.recogniser import WhisperRecogniser, load_whisper
from fewer.search.beam import SearchOptions, beam_search
from fewer.search.nbest import read_nbest
from fewer.store.ngram_files import save_ngram
from fewer.training.ngram import estimate as estimate_ngram
from tests.recognisers.tiny import make_whisper, noises, write_manifest

METHODS = ["zero", "zero_encoder", "seq_avg", "seq_avg_all", "enc_avg", "ctx_avg", "silence", "noise"]
TRAINED = ["learned", "mini_lstm", "distilled"]
QUICK = {"passes": 3, "learning_rate": 0.03, "units": 4, "batch": 60, "seconds": 0.5}
TEXTS = ["the cat", "a cat in a hat", "in the hat", "the hat", "a cat", "cat in the hat"]


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets")
    write_manifest(folder / "train.jsonl", TEXTS, seed=1)
    write_manifest(folder / "dev.jsonl", TEXTS[:3], seed=2)
    write_manifest(folder / "bare.jsonl", [None, None, None], seed=3)
    return folder


def estimate(tiny: Path, sets: Path, out: Path, method: str, **options: object) -> dict:
    config = IlmConfig.model_validate({"method": method, **QUICK, **options})
    return estimate_ilm(tiny, config, out, sets / "train.jsonl", sets / "dev.jsonl")


@pytest.mark.parametrize("method", [*METHODS, *TRAINED, "lodr", "dr"])
def test_every_method_is_estimated_loaded_and_searched_with(
    tiny: Path, whisper: WhisperRecogniser, sets: Path, tmp_path: Path, method: str
) -> None:
    facts = estimate(tiny, sets, tmp_path / "ilm", method)
    assert facts["perplexity"]["dev"]["labels"] == 3 + sum(len(whisper.tokenizer.encode(text)) for text in TEXTS[:3])
    assert facts["perplexity"]["dev"]["ppl_label"] > 1
    system = load_system(whisper, ilm=tmp_path / "ilm", centred=False)
    decode(system, sets / "dev.jsonl", tmp_path / "nbest.jsonl", {"ilm": -0.2}, SearchOptions(beam=3, max_length=8))
    for row, nbest in enumerate(read_nbest(tmp_path / "nbest.jsonl")):
        best = nbest.hypotheses[0]
        labels = torch.tensor([[*best.tokens, whisper.tokenizer.end] if best.ended else list(best.tokens)])
        ilm = load_ilm(tmp_path / "ilm", whisper)
        hears = ilm.context is not None and ilm.context.needs_encoder
        samples = torch.from_numpy(Manifest(sets / "dev.jsonl")[row].load_audio()[0])
        options = {"encoded": whisper.listen([samples])} if hears else {}
        log_probs = ilm.language_model(whisper).log_probs(labels, **options)[0]
        log_probs[0, whisper.suppress_first] = log_probs[1:, whisper.suppress] = float("-inf")
        log_probs = log_probs.log_softmax(-1)
        chosen = log_probs.gather(1, labels.T)[:, 0]
        expected = float(chosen[:-1].sum() if best.ended else chosen.sum())  # Whisper alone scores the end label
        assert best.scores["ilm"] == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("method", TRAINED)
def test_training_begins_at_zero_encoder_and_gets_better(tiny: Path, sets: Path, tmp_path: Path, method: str) -> None:
    """On its own training set; `distilled` by its divergence from the recogniser's posteriors."""
    config = IlmConfig.model_validate({"method": method, **QUICK, "passes": 10})
    facts = estimate_ilm(tiny, config, tmp_path / "ilm", sets / "train.jsonl", sets / "train.jsonl")
    start = estimate_ilm(tiny, IlmConfig(method="zero_encoder"), tmp_path / "zero", None, sets / "train.jsonl")
    if method == "distilled":
        curve = [line for line in (tmp_path / "ilm" / "curves.jsonl").read_text().splitlines() if "dev_kl" in line]
        costs = [float(line.split('"dev_kl": ')[1].split(",")[0].rstrip("}")) for line in curve]
        assert costs[-1] < 0.9 * costs[0]
    else:
        assert facts["perplexity"]["train"]["ppl_label"] < 0.8 * start["perplexity"]["train"]["ppl_label"]


def test_the_global_means_are_means_over_speech_frames_and_labels(
    tiny: Path, whisper: WhisperRecogniser, sets: Path, tmp_path: Path
) -> None:
    manifest = Manifest(sets / "train.jsonl")
    (batch,) = next(iter(whisper.batches(manifest, UtteranceConfig(order="corpus"), transcripts=True).steps(1)))
    encoded = whisper.encode(batch)
    frames = encoded.states[encoded.mask]
    assert len(frames) == int(encoded.lengths.sum()) < 50 * len(TEXTS)
    blocks = whisper.decoder.layers
    estimate(tiny, sets, tmp_path / "enc", "enc_avg")
    context = load_ilm(tmp_path / "enc", whisper).context
    assert isinstance(context, ConstantContext)
    expected = torch.cat([block.hear_only(frames.mean(0)) for block in blocks])
    torch.testing.assert_close(context.vector, expected, atol=1e-5, rtol=1e-5)

    estimate(tiny, sets, tmp_path / "ctx", "ctx_avg")
    context = load_ilm(tmp_path / "ctx", whisper).context
    assert isinstance(context, ConstantContext)
    said: list[list[torch.Tensor]] = [[] for _ in blocks]
    handles = [
        block.cross_out.register_forward_hook(lambda module, given, output, kept=kept: kept.append(output))
        for block, kept in zip(blocks, said, strict=True)
    ]
    whisper.language_model(whisper.attention).log_probs(batch.labels, encoded)
    for handle in handles:
        handle.remove()
    mask = length_mask(batch.label_lengths, batch.labels.shape[1])
    expected = torch.cat([kept[0][:, len(whisper.prompt) - 1 :][mask].mean(0) for kept in said])
    torch.testing.assert_close(context.vector, expected, atol=1e-5, rtol=1e-5)


def test_whispers_own_transcripts_take_the_place_of_missing_ones(tmp_path: Path) -> None:
    """Of utterances that come to an end: a random model goes on for ever with others, of which no use is made."""
    model = make_whisper(tmp_path / "model", seed=2, sharpness=0.2)
    whisper, bare = load_whisper(model), write_manifest(tmp_path / "bare.jsonl", [None] * 12)
    opened = Manifest(bare, transcripts=False)
    own_transcripts(whisper, whisper.batches(opened, UtteranceConfig()), tmp_path / "own.jsonl")
    own = Manifest(tmp_path / "own.jsonl")
    encoded = whisper.listen([torch.from_numpy(opened[index].load_audio()[0]) for index in range(12)])
    whisper.defaults = replace(whisper.defaults, longest_loop=0)
    fusion = load_system(whisper).fusion({})
    limits, options = whisper.max_lengths(encoded), SearchOptions(BEAM)
    lists = beam_search(fusion, encoded, limits, options, whisper.tokenizer.decode)
    expected = [(opened.id(index), best[0].text) for index, best in enumerate(lists) if best[0].ended]
    assert list(zip(own.ids(), own.texts(), strict=True)) == expected
    assert 0 < len(expected) < 12
    config = IlmConfig.model_validate({"method": "learned", **QUICK, "own_transcripts": True})
    facts = estimate_ilm(model, config, tmp_path / "ilm", bare, bare)
    labels = sum(len(whisper.tokenizer.encode(text)) + 1 for _, text in expected)
    assert facts["perplexity"]["bare"]["labels"] == labels


def test_what_a_transformer_decoder_does_not_have_is_refused(tiny: Path, sets: Path, tmp_path: Path) -> None:
    for method, reason in (("decoder_like", "no language model like this decoder"), ("state_ff", "an LSTM decoder")):
        with pytest.raises(FewerError, match=f"{method} .*{reason}"):
            estimate(tiny, sets, tmp_path / method, method)


def test_an_ilm_is_of_one_language_and_task(tmp_path: Path) -> None:
    model = make_whisper(tmp_path / "whisper", multilingual=True)
    dev = write_manifest(tmp_path / "dev.jsonl", ["the cat"])
    config = IlmConfig(method="zero", language="de", task="translate")
    facts = estimate_ilm(model, config, tmp_path / "ilm", dev=dev)
    assert load_system(model, ilm=tmp_path / "ilm", language="de", task="translate").ilm is not None
    assert measure(tmp_path / "ilm", dev, model) == facts["perplexity"]["dev"]
    with pytest.raises(FewerError, match="another recogniser"):
        load_system(model, ilm=tmp_path / "ilm", language="de")


def test_an_ilm_folder_without_a_task_is_of_a_transcribing_recogniser(tiny: Path, sets: Path, tmp_path: Path) -> None:
    """As versions before wrote it."""
    estimate(tiny, sets, tmp_path / "ilm", "zero")
    facts = read_json(tmp_path / "ilm" / "ilm.json")
    assert facts["config"].pop("task") == "transcribe"
    write_json(tmp_path / "ilm" / "ilm.json", facts)
    assert load_system(tiny, ilm=tmp_path / "ilm").ilm is not None


def test_an_ilm_of_another_whisper_is_refused(tiny: Path, sets: Path, tmp_path: Path) -> None:
    estimate(tiny, sets, tmp_path / "ilm", "zero")
    assert read_json(tmp_path / "ilm" / "ilm.json")["config"]["batch"] == QUICK["batch"]
    other = make_whisper(tmp_path / "other", seed=5)
    with pytest.raises(FewerError, match="another recogniser"):
        load_system(other, ilm=tmp_path / "ilm")


def test_an_ngram_over_whispers_labels_is_fused(whisper: WhisperRecogniser, tmp_path: Path) -> None:
    """An LM that has only ever seen one sentence makes the search write it, if its scale is large."""
    tokenizer = whisper.tokenizer
    sentence = [*tokenizer.encode("the cat"), tokenizer.end]
    ngram = estimate_ngram(torch.tensor(sentence * 50), 3, tokenizer.size, tokenizer.end)
    save_ngram(tmp_path / "lm.arpa", ngram, tokenizer.labels)
    system = load_system(whisper, lm=tmp_path / "lm.arpa")
    encoded = whisper.listen(noises(2))
    lists = beam_search(
        system.fusion({"lm": 50.0}), encoded, whisper.max_lengths(encoded), SearchOptions(beam=4), tokenizer.decode
    )
    assert all(hypotheses[0].text.startswith("the cat") for hypotheses in lists)
