"""Internal LMs estimated from a trained recogniser, by every method, and loaded again."""

import gzip
import json
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from lhotse.cut.set import deserialize_cut
from safetensors.torch import load_file

from fewer.data.batches import UtteranceConfig
from fewer.data.manifest import Manifest
from fewer.errors import FewerError
from fewer.files import read_json
from fewer.ilm.config import IlmConfig
from fewer.ilm.estimate import Estimation, estimate_ilm
from fewer.ilm.folder import load_ilm
from fewer.ilm.perplexity import perplexity
from fewer.ilm.registry import all_methods
from fewer.locks import exclusive
from fewer.models.aed_scorer import AedScorer
from fewer.models.context import Context, ZeroContext
from fewer.models.decoder import DecoderLikeLm, InternalLm
from fewer.models.encoded import length_mask
from fewer.models.lm import LstmLm
from fewer.models.ngram import NGram
from fewer.recognisers.aed import AedRecogniser
from fewer.search.beam import SearchOptions, beam_search
from fewer.search.fusion import Fusion
from fewer.store.model_folder import load_model
from fewer.training.configs import parse_train_config
from fewer.training.records import read_curves
from fewer.training.run import train_model
from tests.training.tones import aed_values, write_tones

QUICK = {"units": 6, "passes": 2, "batch": 40, "learning_rate": 0.01}


@pytest.fixture(scope="module")
def tones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tones")
    write_tones(folder)
    train_model(parse_train_config(aed_values(folder), "aed.yaml"), folder / "aed")
    return folder


@pytest.fixture(scope="module")
def recogniser(tones: Path) -> AedRecogniser:
    return AedRecogniser(load_model(tones / "aed"))


def estimate(tones: Path, out: Path, method: str, **options: object) -> dict:
    config = IlmConfig.model_validate({"method": method, **QUICK, **options})
    return estimate_ilm(tones / "aed", config, out, tones / "train.jsonl", tones / "dev.jsonl")


@pytest.mark.parametrize("method", all_methods())
def test_every_method_is_estimated_loaded_and_a_language_model(
    tones: Path, recogniser: AedRecogniser, tmp_path: Path, method: str
) -> None:
    facts = estimate(tones, tmp_path / "ilm", method)
    stored = facts["perplexity"]["dev"]
    assert read_json(tmp_path / "ilm" / "ilm.json")["perplexity"]["dev"] == stored
    ilm = load_ilm(tmp_path / "ilm", recogniser)
    lm = ilm.language_model(recogniser)
    batches = recogniser.batches(Manifest(tones / "dev.jsonl"), UtteranceConfig(order="sorted"), transcripts=True)
    loaded = [batch for group in batches.steps(1) for batch in group]
    again = perplexity(lm, loaded, recogniser.tokenizer, recogniser.encode)
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
    tones: Path, recogniser: AedRecogniser, tmp_path: Path
) -> None:
    """Against utterances one at a time, in float64."""
    frames, contexts = [], []
    batches = recogniser.batches(Manifest(tones / "train.jsonl"), UtteranceConfig(max_sequences=1), transcripts=True)
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


def test_the_special_first_step_is_an_option(tones: Path, recogniser: AedRecogniser, tmp_path: Path) -> None:
    for special in (True, False):
        estimate(tones, tmp_path / str(special), "enc_avg", special_first=special)
        context = load_ilm(tmp_path / str(special), recogniser).context
        assert context is not None
        first, _ = context.start(None, torch.zeros(2, 0))
        assert bool((first == 0).all()) is special


def test_both_means_come_from_one_pass_where_they_are_kept(
    tones: Path, recogniser: AedRecogniser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = {}
    for method in ("enc_avg", "ctx_avg"):
        estimate(tones, tmp_path / "apart" / method, method)
        apart[method] = load_ilm(tmp_path / "apart" / method, recogniser).context.state_dict()["vector"]  # type: ignore[union-attr]
    passes = []
    original = Estimation.on_heard
    monkeypatch.setattr(Estimation, "on_heard", lambda *args, **options: passes.append(1) or original(*args, **options))
    for method in ("enc_avg", "ctx_avg"):
        estimate(tones, tmp_path / "together" / method, method, means=tmp_path / "means")
        vector = load_ilm(tmp_path / "together" / method, recogniser).context.state_dict()["vector"]  # type: ignore[union-attr]
        assert torch.equal(vector, apart[method])
    assert len(passes) == 1
    estimate(tones, tmp_path / "part", "enc_avg", means=tmp_path / "means", utterances=3)  # of another training set
    assert len(passes) == 2


def test_the_mini_lstm_as_published(tones: Path, tmp_path: Path) -> None:
    """A part of a pass, in parts, with a rate that stays, and with L2, which makes the linear layer smaller."""
    published = {"passes": 0.75, "parts": 4, "newbob": {"window": 20}, "batch": 10}
    plain = IlmConfig.model_validate({"method": "mini_lstm", **QUICK, **published})
    weights = []
    for l2 in (0.0, 20.0):
        facts = estimate(tones, tmp_path / str(l2), "mini_lstm", **published, l2=l2)
        assert facts["perplexity"]["dev"]["ppl_label"] > 1
        lines = [line for line in read_curves(tmp_path / str(l2)) if line["kind"] == "sub_epoch"]
        assert len(lines) == plain.sub_epochs == 3
        assert {line["rate"] for line in lines} == {0.01}
        weights.append(load_file(tmp_path / str(l2) / "context.safetensors"))
    steps = lines[-1]["step"]
    whole = IlmConfig.model_validate({"method": "mini_lstm", **QUICK, "passes": 1, "batch": 10})
    estimate_ilm(tones / "aed", whole, tmp_path / "whole", tones / "train.jsonl", tones / "dev.jsonl")
    of_a_pass = next(line for line in read_curves(tmp_path / "whole") if line["kind"] == "sub_epoch")["step"]
    assert 0.5 * of_a_pass < steps < of_a_pass
    norms = [{name: float(weight.norm()) for name, weight in one.items()} for one in weights]
    assert norms[1]["linear.weight"] < 0.8 * norms[0]["linear.weight"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"method": "learned", "l2": 1e-4}, "only for the linear layer of mini_lstm"),
        ({"method": "mini_lstm", "passes": 0.4}, "less than half a part"),
    ],
)
def test_options_without_effect_are_refused(options: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        IlmConfig.model_validate(options)


@pytest.mark.parametrize("method", ["mini_lstm", "learned", "state_ff"])
def test_training_a_context_leaves_the_recogniser_alone_and_lowers_the_perplexity(
    tones: Path, recogniser: AedRecogniser, tmp_path: Path, method: str
) -> None:
    before = {name: value.clone() for name, value in recogniser.aed.state_dict().items()}
    trained = estimate(tones, tmp_path / "trained", method, passes=12)["perplexity"]["dev"]["ppl_label"]
    for name, value in load_model(tones / "aed").aed.state_dict().items():
        torch.testing.assert_close(value, before[name], atol=0, rtol=0)
    zero = estimate(tones, tmp_path / "zero", "zero")["perplexity"]["dev"]["ppl_label"]
    assert trained < zero


def test_distillation_comes_closer_to_the_recognisers_posteriors(
    tones: Path, recogniser: AedRecogniser, tmp_path: Path
) -> None:
    estimate(tones, tmp_path / "ilm", "distilled", passes=4)
    context = load_ilm(tmp_path / "ilm", recogniser).context
    assert context is not None
    aed = recogniser.aed
    batches = recogniser.batches(Manifest(tones / "dev.jsonl"), UtteranceConfig(order="sorted"), transcripts=True)
    batch = batches.load(batches.plan(1).items, 1)
    posteriors = aed.teacher_forced(recogniser.encode(batch), batch.labels).logits.log_softmax(-1)
    mask = length_mask(batch.label_lengths, batch.labels.shape[1])

    def divergence(used: Context) -> float:
        own = InternalLm(aed.decoder, used).log_probs(batch.labels)
        return float((posteriors.exp() * (posteriors - own)).sum(-1)[mask].sum())

    assert 0 <= divergence(context) < divergence(ZeroContext(aed.decoder.context_size))


def test_an_ilm_that_hears_nothing_equals_the_decoder_with_zero_context(recogniser: AedRecogniser) -> None:
    labels = torch.tensor([[1, 2, 3, 0], [2, 2, 0, 0]])
    aed = recogniser.aed
    zero = InternalLm(aed.decoder, IlmConfig(method="zero").new_context(recogniser)).log_probs(labels)
    plain = aed.decoder.teacher_forced(ZeroContext(aed.decoder.context_size), None, labels).logits
    torch.testing.assert_close(zero, plain.log_softmax(-1))


def test_a_subset_of_the_training_set_will_do_and_another_one_is_another(
    tones: Path, recogniser: AedRecogniser, tmp_path: Path
) -> None:
    """In a folder that has held the average over a smaller subset as in a new one."""
    packed = tmp_path / "train.jsonl.gz"
    packed.write_bytes(gzip.compress((tones / "train.jsonl").read_bytes()))
    vectors = {}
    for name, utterances, manifest in (
        ("used", 3, tones / "train.jsonl"),
        ("used", 9, tones / "train.jsonl"),
        ("new", 9, tones / "train.jsonl"),
        ("packed", 9, packed),
    ):
        config = IlmConfig(method="enc_avg", utterances=utterances)
        estimate_ilm(tones / "aed", config, tmp_path / name, manifest, tones / "dev.jsonl")
        context = load_ilm(tmp_path / name, recogniser).context
        assert context is not None
        vectors[name, utterances] = context.state_dict()["vector"]
    assert not torch.allclose(vectors["used", 3], vectors["used", 9], atol=1e-5)
    for name in ("used", "packed"):
        torch.testing.assert_close(vectors[name, 9], vectors["new", 9], atol=0, rtol=0)
    subsets = sorted(len(Manifest(path)) for path in (tmp_path / "used" / "subset").rglob("train.jsonl"))
    assert subsets == [3, 9]


def without_transcripts(manifest: Path, out: Path) -> Path:
    cuts = [json.loads(line) | {"supervisions": []} for line in manifest.read_text().splitlines()]
    out.write_text("".join(f"{json.dumps(cut)}\n" for cut in cuts))
    return out


def test_distilling_without_transcripts_is_distilling_on_the_recognisers_own(
    tones: Path, recogniser: AedRecogniser, tmp_path: Path
) -> None:
    """The same as with the best hypotheses of a search put into the manifest by hand."""
    bare = {name: without_transcripts(tones / f"{name}.jsonl", tmp_path / f"{name}.jsonl") for name in ("train", "dev")}
    config = IlmConfig.model_validate({"method": "distilled", **QUICK})
    facts = estimate_ilm(tones / "aed", config, tmp_path / "bare", bare["train"], bare["dev"])
    fusion = Fusion([AedScorer(recogniser.aed)], {"aed": 1.0})
    (tmp_path / "hand").mkdir()
    for name in ("train", "dev"):
        lines = []
        for line in (tones / f"{name}.jsonl").read_text().splitlines():
            cut = json.loads(line)
            features = recogniser.features.read(deserialize_cut(json.loads(line)))
            encoded = recogniser.aed.encode(features[None], torch.tensor([len(features)]))
            best = beam_search(fusion, encoded, encoded.lengths, SearchOptions(4), recogniser.tokenizer.decode)[0][0]
            if best.ended and best.text:
                cut["supervisions"][0]["text"] = best.text
                lines.append(f"{json.dumps(cut)}\n")
        assert lines
        (tmp_path / "hand" / f"{name}.jsonl").write_text("".join(lines))
    by_hand = [tmp_path / "hand" / f"{name}.jsonl" for name in ("train", "dev")]
    expected = estimate_ilm(tones / "aed", config, tmp_path / "ilm", *by_hand)
    assert facts["perplexity"]["dev"] == pytest.approx(expected["perplexity"]["dev"], rel=1e-5)
    one, other = (load_ilm(tmp_path / name, recogniser).context for name in ("bare", "ilm"))
    assert one is not None
    assert other is not None
    torch.testing.assert_close(one.state_dict(), other.state_dict(), atol=1e-4, rtol=1e-4)
    asked = config.model_copy(update={"own_transcripts": True})
    given = estimate_ilm(tones / "aed", asked, tmp_path / "asked", tones / "train.jsonl", tones / "dev.jsonl")
    assert given["perplexity"]["dev"] == pytest.approx(expected["perplexity"]["dev"], rel=1e-5)


def test_the_mean_encoder_state_needs_no_transcripts(tones: Path, recogniser: AedRecogniser, tmp_path: Path) -> None:
    bare = without_transcripts(tones / "train.jsonl", tmp_path / "bare.jsonl")
    estimate_ilm(tones / "aed", IlmConfig(method="enc_avg"), tmp_path / "bare", bare, None)
    estimate(tones, tmp_path / "ilm", "enc_avg")
    one, other = (load_ilm(tmp_path / name, recogniser).context for name in ("bare", "ilm"))
    assert one is not None
    assert other is not None
    torch.testing.assert_close(one.vector, other.vector, atol=0, rtol=0)
    with pytest.raises(FewerError, match="supervisions"):
        estimate_ilm(tones / "aed", IlmConfig(method="ctx_avg"), tmp_path / "ctx", bare, None)


@pytest.mark.parametrize("method", ["mini_lstm", "dr"])
def test_what_is_not_given_is_as_in_the_recognisers_training(tones: Path, tmp_path: Path, method: str) -> None:
    """Its peak rate and smoothing for a context; an LM of its own has a rate of its own."""
    model = tmp_path / "aed"
    shutil.copytree(tones / "aed", model)
    values = yaml.safe_load((model / "config.yaml").read_text())
    values["schedule"]["peak"], values["smoothing"] = 0.003, 0.2
    (model / "config.yaml").write_text(yaml.safe_dump(values))
    sets = [tones / "train.jsonl", tones / "dev.jsonl"]
    for options, expected in (({}, (0.003, 0.2)), ({"learning_rate": 0.02, "smoothing": 0.0}, (0.02, 0.0))):
        config = IlmConfig.model_validate({"method": method, "passes": 1, **options})
        out = tmp_path / f"ilm{len(options)}"
        estimate_ilm(model, config, out, *sets)
        stored = read_json(out / "ilm.json")["config"]
        wanted = expected if options or method == "mini_lstm" else (0.001, 0.1)
        assert (stored["learning_rate"], stored["smoothing"]) == wanted
        curves = read_curves(out / "lm" if method == "dr" else out)
        assert curves[-1]["rate"] == pytest.approx(wanted[0])


def test_the_rate_of_a_recogniser_that_sgd_trained_is_not_taken(tones: Path, tmp_path: Path) -> None:
    model = tmp_path / "aed"
    shutil.copytree(tones / "aed", model)
    values = yaml.safe_load((model / "config.yaml").read_text())
    values["optimizer"]["kind"], values["schedule"]["peak"] = "sgd", 1.0
    (model / "config.yaml").write_text(yaml.safe_dump(values))
    config = IlmConfig(method="learned", passes=1)
    estimate_ilm(model, config, tmp_path / "ilm", tones / "train.jsonl", tones / "dev.jsonl")
    assert read_json(tmp_path / "ilm" / "ilm.json")["config"]["learning_rate"] == 0.001


def test_the_lm_of_the_density_ratio_has_the_shape_that_is_asked_for(
    tones: Path, recogniser: AedRecogniser, tmp_path: Path
) -> None:
    estimate(tones, tmp_path / "ilm", "dr", embedding=5, size=11, dropout=0.0)
    lm = load_ilm(tmp_path / "ilm", recogniser).separate
    assert isinstance(lm, LstmLm)
    assert (lm.config.embedding, lm.config.size, lm.config.dropout) == (5, 11, 0.0)
    assert lm.embedding.weight.shape == (recogniser.tokenizer.size, 5)
    with pytest.raises(ValueError, match="only for the LM of dr"):
        IlmConfig(method="decoder_like", size=11)


def test_a_folder_holds_what_was_estimated_last(tones: Path, recogniser: AedRecogniser, tmp_path: Path) -> None:
    kinds = {"lodr": NGram, "dr": LstmLm, "zero": type(None), "decoder_like": DecoderLikeLm}
    for method in ("lodr", "dr", "lodr", "decoder_like", "zero"):
        estimate(tones, tmp_path / "ilm", method)
        assert type(load_ilm(tmp_path / "ilm", recogniser).separate) is kinds[method]


def test_what_was_there_stays_when_another_estimate_fails(
    tones: Path, recogniser: AedRecogniser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    stored = estimate(tones, tmp_path / "ilm", "lodr")["perplexity"]
    monkeypatch.setattr("fewer.ilm.methods.dr.train_model", killed)
    with pytest.raises(KeyboardInterrupt):
        estimate(tones, tmp_path / "ilm", "dr")
    ilm = load_ilm(tmp_path / "ilm", recogniser)
    assert isinstance(ilm.separate, NGram)
    assert ilm.facts["perplexity"] == stored


def test_an_ilm_of_another_recogniser_is_refused(tones: Path, recogniser: AedRecogniser, tmp_path: Path) -> None:
    estimate(tones, tmp_path / "ilm", "zero")
    facts = (tmp_path / "ilm" / "ilm.json").read_text()
    (tmp_path / "ilm" / "ilm.json").write_text(facts.replace(recogniser.fingerprint, "0" * 64))
    with pytest.raises(FewerError, match="another recogniser"):
        load_ilm(tmp_path / "ilm", recogniser)


def test_a_truncated_context_is_named(tones: Path, recogniser: AedRecogniser, tmp_path: Path) -> None:
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


def test_a_folder_in_which_another_estimation_runs_is_left_alone(tones: Path, tmp_path: Path) -> None:
    with exclusive(tmp_path / "ilm"), pytest.raises(FewerError, match=r"ilm is in use by"):
        estimate_ilm(tones / "aed", IlmConfig(method="zero"), tmp_path / "ilm")
    estimate_ilm(tones / "aed", IlmConfig(method="zero"), tmp_path / "ilm")
    assert sorted(path.name for path in (tmp_path / "ilm").iterdir()) == ["context.safetensors", "ilm.json"]
