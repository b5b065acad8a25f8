"""Feed-forward and zoneout decoders, their internal LMs and search, against the NumPy reference."""

import numpy as np
import pytest
import torch

from fewer.ilm.methods.mini_lstm import MiniLstmContext
from fewer.ilm.methods.seq_avg import SequenceMeanContext
from fewer.models.aed import AED, AedConfig
from fewer.models.aed_scorer import AedScorer
from fewer.models.context import ConstantContext, Context, ZeroContext
from fewer.models.encoded import Encoded
from fewer.models.lm import LmScorer, LstmLm, LstmLmConfig
from fewer.search.beam import SearchOptions, beam_search
from fewer.search.fusion import Fusion
from fewer.store.returnn import converted, gates
from tests.golden.golden import arrays, encoded, labels, set_linear, set_lstm
from tests.golden.golden import golden_aed as golden
from tests.golden.reference import CONTEXT, EMBEDDING, LABELS, MINI, STATES, Arrays, Reference, network, random_arrays

METHODS = ["zero", "mean", "mean_no_first", "seq_avg", "mini_lstm"]
FRAMES = [7, 5, 2]


def product(parameters: Arrays, state: str) -> AED:
    own = {name: value for name, value in parameters.items() if not name.startswith(("mini", "lm:"))}
    config, weights = converted(own, network(state))
    assert isinstance(config, AedConfig)
    assert config.decoder.state == state
    model = AED(config)
    model.load_state_dict(weights)
    return model.eval()


def language_model(parameters: Arrays) -> LstmLm:
    lm = {name.removeprefix("lm:"): value for name, value in parameters.items() if name.startswith("lm:")}
    config, weights = converted(lm)
    assert isinstance(config, LstmLmConfig)
    model = LstmLm(config)
    model.load_state_dict(weights)
    return model.eval()


def context_of(method: str, parameters: Arrays, mean: np.ndarray) -> Context:
    if method == "zero":
        return ZeroContext(CONTEXT)
    if method == "seq_avg":
        return SequenceMeanContext(CONTEXT)
    if method != "mini_lstm":
        return ConstantContext(torch.from_numpy(mean).float(), special_first=method == "mean")
    context = MiniLstmContext(EMBEDDING, CONTEXT, MINI)
    tensors = {name: torch.from_numpy(value) for name, value in parameters.items()}
    set_lstm(context.lstm, *(gates(tensors[f"mini/rec/{name}"], "gifo") for name in ("W", "W_re", "b")))
    set_linear(context.linear, tensors["mini_att/W"], tensors["mini_att/b"])
    return context.eval()


def utterances(seed: int) -> tuple[Encoded, list[np.ndarray], np.ndarray, torch.Tensor]:
    """Encoder states of a padded batch and of each utterance, a mean, and labels."""
    rng = np.random.default_rng(seed)
    single = [rng.normal(size=(frames, CONTEXT)) for frames in FRAMES]
    padded = torch.zeros(len(FRAMES), max(FRAMES), CONTEXT)
    for b, states in enumerate(single):
        padded[b, : len(states)] = torch.from_numpy(states)
    targets = torch.from_numpy(rng.integers(0, LABELS, (len(FRAMES), 6)))
    return Encoded(padded, torch.tensor(FRAMES)), single, rng.normal(size=CONTEXT), targets


@pytest.mark.parametrize("method", ["attention", *METHODS])
@pytest.mark.parametrize("state", STATES)
def test_recogniser_and_internal_lms(state: str, method: str) -> None:
    parameters = random_arrays(state)
    model, reference = product(parameters, state), Reference(parameters, state)
    batch, single, mean, targets = utterances(3)
    with torch.no_grad():
        if method == "attention":
            decoded = model.teacher_forced(batch, targets)
        else:
            context = context_of(method, parameters, mean)
            decoded = model.decoder.teacher_forced(context, context.prepare(batch), targets)
    ours = decoded.logits.detach().log_softmax(-1).numpy()
    for b, states in enumerate(single):
        theirs = reference.teacher_forced(method, states, mean, targets[b].tolist())
        np.testing.assert_allclose(ours[b], theirs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("history", [1, 2, 5])
def test_feed_forward_decoders_that_see_fewer_or_more_labels(history: int) -> None:
    parameters = random_arrays("feed_forward", history=history)
    model, reference = product(parameters, "feed_forward"), Reference(parameters, "feed_forward")
    assert model.config.decoder.history == history
    batch, single, mean, targets = utterances(4)
    with torch.no_grad():
        ours = model.teacher_forced(batch, targets).logits.log_softmax(-1).numpy()
    for b, states in enumerate(single):
        theirs = reference.teacher_forced("attention", states, mean, targets[b].tolist())
        np.testing.assert_allclose(ours[b], theirs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("ilm", [None, *METHODS])
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("seed", [1, 2])
def test_search(state: str, ilm: str | None, seed: int) -> None:
    parameters = random_arrays(state, seed)
    model, reference = product(parameters, state), Reference(parameters, state)
    batch, single, mean, _ = utterances(seed)
    scorers: list = [AedScorer(model)]
    scales = {"aed": 1.0}
    if ilm is not None:
        scorers = [AedScorer(model, {"ilm": context_of(ilm, parameters, mean)}), LmScorer(language_model(parameters))]
        scales |= {"lm": 0.5, "ilm": -0.3}
    ours = beam_search(Fusion(scorers, scales), batch, batch.lengths, SearchOptions(beam=4))
    for hypotheses, states in zip(ours, single, strict=True):
        theirs = reference.search(states, mean, ilm, (0.5, 0.3), beam=4)
        assert [one.tokens for one in hypotheses] == [tokens for tokens, _ in theirs]
        assert [one.score for one in hypotheses] == pytest.approx([score for _, score in theirs], abs=1e-5)


@pytest.mark.parametrize("batch", ["A", "B"])
def test_the_reference_agrees_with_the_toolkit_where_both_are(batch: str) -> None:
    """The LSTM decoder at the golden dims, under its attention and as the internal LMs `zero` and E_x[h]."""
    toolkit, ilms = arrays("aed_lstm"), arrays("ilm_lstm")
    parameters = {name.removeprefix("param:"): v.numpy() for name, v in toolkit.items() if name.startswith("param:")}
    reference, mean = Reference(parameters, "lstm"), np.zeros(32)
    (y, lengths), states = labels(batch), encoded(batch)
    for b, n in enumerate(lengths.tolist()):
        heard = states.states[b, : int(states.lengths[b])].numpy().astype(np.float64)
        for method in ("attention", "zero", "seq_avg"):
            theirs = toolkit[f"{batch}:dec_logp"] if method == "attention" else ilms[f"{batch}:{method}:ilm_logp"]
            ours = reference.teacher_forced(method, heard, mean, y[b, :n].tolist())
            np.testing.assert_allclose(ours, theirs[b, :n].numpy(), atol=1e-4, rtol=0)


def test_golden_parameters_are_converted_as_the_golden_tests_do() -> None:
    toolkit = arrays("aed_lstm")
    parameters = {name.removeprefix("param:"): v.numpy() for name, v in toolkit.items() if name.startswith("param:")}
    config, weights = converted(parameters, {"lstm0_pool": {"pool_size": (3,)}, "lstm1_pool": {"pool_size": (2,)}})
    assert isinstance(config, AedConfig)
    assert (config.encoder.layers, config.encoder.pools, config.encoder.filters) == (3, (3, 2), 8)
    expected = golden().state_dict()
    assert set(weights) == set(expected)
    for name, value in expected.items():
        assert torch.equal(weights[name], value), name
