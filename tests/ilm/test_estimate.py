"""Internal LMs estimated from a trained recogniser, by every method, and loaded again."""

from pathlib import Path

import pytest
import torch

from fewer.data.batches import UtteranceConfig
from fewer.data.manifest import Manifest
from fewer.errors import FewerError
from fewer.files import read_json
from fewer.ilm.estimate import estimate_ilm, speech_batches
from fewer.ilm.folder import load_ilm
from fewer.ilm.internal_lm import InternalLm
from fewer.ilm.methods import METHODS, IlmConfig, new_context
from fewer.ilm.perplexity import perplexity
from fewer.ilm.training import DistilTask
from fewer.models.context import Context, ZeroContext
from fewer.training.configs import parse_train_config
from fewer.training.model_folder import LoadedModel, load_model
from fewer.training.run import train_model
from fewer.training.task import Moment
from tests.training.tones import aed_values, write_tones

QUICK = {"units": 6, "passes": 2, "batch": 40, "learning_rate": 0.01}


@pytest.fixture(scope="module")
def tones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tones")
    write_tones(folder)
    train_model(parse_train_config(aed_values(folder), "aed.yaml"), folder / "aed")
    return folder


@pytest.fixture(scope="module")
def recogniser(tones: Path) -> LoadedModel:
    return load_model(tones / "aed")


def estimate(tones: Path, out: Path, method: str, **options: object) -> dict:
    config = IlmConfig.model_validate({"method": method, **QUICK, **options})
    return estimate_ilm(tones / "aed", config, out, tones / "train.jsonl", tones / "dev.jsonl")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_estimated_loaded_and_a_language_model(
    tones: Path, recogniser: LoadedModel, tmp_path: Path, method: str
) -> None:
    facts = estimate(tones, tmp_path / "ilm", method)
    stored = facts["perplexity"]["dev"]
    assert read_json(tmp_path / "ilm" / "ilm.json")["perplexity"]["dev"] == stored
    ilm = load_ilm(tmp_path / "ilm", recogniser)
    lm = ilm.language_model(recogniser)
    batches = speech_batches(recogniser, Manifest(tones / "dev.jsonl"), UtteranceConfig(order="sorted"))
    loaded = [batch for group in batches.steps(1) for batch in group]
    again = perplexity(lm, loaded, recogniser.tokenizer, recogniser.aed)
    assert again.per_label == pytest.approx(stored["ppl_label"], rel=1e-6)
    assert again.sentences == 6
    if ilm.context is None or not ilm.context.needs_encoder:
        labels = loaded[0].labels
        state, read, steps = lm.start(len(labels)), torch.full((len(labels),), -1), []
        for i in range(labels.shape[1]):
            scores, state = lm.step(state, read)
            assert torch.allclose(scores.exp().sum(-1), torch.ones(len(labels)), atol=1e-5)
            steps.append(scores)
            read = labels[:, i]
        torch.testing.assert_close(torch.stack(steps, 1), lm.log_probs(labels), atol=1e-5, rtol=1e-5)


def test_averages_are_the_means_over_frames_and_labels_of_the_whole_training_set(
    tones: Path, recogniser: LoadedModel, tmp_path: Path
) -> None:
    """Against utterances one at a time, in float64."""
    frames, contexts = [], []
    batches = speech_batches(recogniser, Manifest(tones / "train.jsonl"), UtteranceConfig(max_sequences=1))
    for group in batches.steps(1):
        for batch in group:
            encoded = recogniser.aed.encode(batch.features, batch.feature_lengths)
            frames.append(encoded.states[0].double())
            contexts.append(recogniser.aed.teacher_forced(encoded, batch.labels).contexts[0].double())
    for method, values in (("enc_avg", frames), ("ctx_avg", contexts)):
        estimate(tones, tmp_path / method, method)
        context = load_ilm(tmp_path / method, recogniser).context
        assert context is not None
        torch.testing.assert_close(context.vector.double(), torch.cat(values).mean(0), atol=1e-5, rtol=1e-5)


def test_the_special_first_step_is_an_option(tones: Path, recogniser: LoadedModel, tmp_path: Path) -> None:
    for special in (True, False):
        estimate(tones, tmp_path / str(special), "enc_avg", special_first=special)
        context = load_ilm(tmp_path / str(special), recogniser).context
        assert context is not None
        first, _ = context.start(None, torch.zeros(2, 0))
        assert bool((first == 0).all()) is special


@pytest.mark.parametrize("method", ["mini_lstm", "learned", "state_ff"])
def test_training_a_context_leaves_the_recogniser_alone_and_lowers_the_perplexity(
    tones: Path, recogniser: LoadedModel, tmp_path: Path, method: str
) -> None:
    before = {name: value.clone() for name, value in recogniser.aed.state_dict().items()}
    trained = estimate(tones, tmp_path / "trained", method, passes=12)["perplexity"]["dev"]["ppl_label"]
    for name, value in load_model(tones / "aed").aed.state_dict().items():
        torch.testing.assert_close(value, before[name], atol=0, rtol=0)
    zero = estimate(tones, tmp_path / "zero", "zero")["perplexity"]["dev"]["ppl_label"]
    assert trained < zero


def test_distillation_comes_closer_to_the_recognisers_posteriors(
    tones: Path, recogniser: LoadedModel, tmp_path: Path
) -> None:
    estimate(tones, tmp_path / "ilm", "distilled", passes=4)
    context = load_ilm(tmp_path / "ilm", recogniser).context
    assert context is not None
    aed = recogniser.aed
    batches = speech_batches(recogniser, Manifest(tones / "dev.jsonl"), UtteranceConfig(order="sorted"))
    task = DistilTask(IlmConfig(method="distilled"), aed, batches, batches)
    batch = batches.load(batches.plan(1).items, 1)

    def divergence(used: Context) -> float:
        return float(task.losses(InternalLm(aed.decoder, used), batch, Moment(1, 0)).total)

    assert 0 <= divergence(context) < divergence(ZeroContext(aed.decoder.context_size))


def test_an_ilm_that_hears_nothing_equals_the_decoder_with_zero_context(recogniser: LoadedModel) -> None:
    labels = torch.tensor([[1, 2, 3, 0], [2, 2, 0, 0]])
    aed = recogniser.aed
    zero = InternalLm(aed.decoder, new_context(IlmConfig(method="zero"), aed)).log_probs(labels)
    plain = aed.decoder.teacher_forced(ZeroContext(aed.decoder.context_size), None, labels).logits
    torch.testing.assert_close(zero, plain.log_softmax(-1))


def test_a_subset_of_the_training_set_will_do(tones: Path, tmp_path: Path) -> None:
    estimate(tones, tmp_path / "ilm", "mini_lstm", utterances=5)
    assert len(Manifest(tmp_path / "ilm" / "train.jsonl")) == 5


def test_an_ilm_of_another_recogniser_is_refused(tones: Path, recogniser: LoadedModel, tmp_path: Path) -> None:
    estimate(tones, tmp_path / "ilm", "zero")
    facts = (tmp_path / "ilm" / "ilm.json").read_text()
    (tmp_path / "ilm" / "ilm.json").write_text(facts.replace(recogniser.fingerprint, "0" * 64))
    with pytest.raises(FewerError, match="another recogniser"):
        load_ilm(tmp_path / "ilm", recogniser)


def test_a_truncated_context_is_named(tones: Path, recogniser: LoadedModel, tmp_path: Path) -> None:
    estimate(tones, tmp_path / "ilm", "enc_avg")
    path = tmp_path / "ilm" / "context.safetensors"
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(FewerError, match=r"context\.safetensors"):
        load_ilm(tmp_path / "ilm", recogniser)


def test_what_is_missing_is_said(tones: Path, tmp_path: Path) -> None:
    with pytest.raises(FewerError, match="--train"):
        estimate_ilm(tones / "aed", IlmConfig(method="enc_avg"), tmp_path / "ilm")
    with pytest.raises(FewerError, match="--dev"):
        estimate_ilm(tones / "aed", IlmConfig(method="mini_lstm"), tmp_path / "ilm", tones / "train.jsonl")
