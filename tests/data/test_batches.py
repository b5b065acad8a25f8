import time

import numpy as np
import pytest
import soundfile
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lhotse import MonoCut, Recording, SupervisionSegment

from fewer.data.augment import SpecAugment, SpecAugmentConfig
from fewer.data.batches import CurriculumRule, UtteranceBatches, UtteranceConfig, shortest
from fewer.data.extractor import LogMelConfig
from fewer.data.manifest import Manifest
from fewer.data.reader import FeatureReader
from fewer.data.reading import read_ahead
from fewer.data.tokenizers import train_characters, train_words
from fewer.errors import FewerError
from tests.data.manifests import cut, write_manifest

WORDS = ["ONE", "TWO", "THREE", "FOUR"]
CHARACTERS = train_characters(WORDS)


class SmoothNoise:
    """Features that are a function of the utterance and the speed; row t is (duration, speed, t)."""

    dim, frame_shift = 3, 0.01

    def read(self, cut, speed=1.0):
        frames = max(round(cut.duration / speed * 100), 1)
        rows = torch.ones(frames, 3)
        rows[:, 0], rows[:, 1], rows[:, 2] = cut.duration, speed, torch.arange(frames)
        return rows


def shift(features, rng, step):
    """An augmentation that shows its randomness and the step."""
    return features + torch.tensor([rng.random(), step, 0.0])


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    rng = np.random.default_rng(0)
    cuts = []
    for number in range(60):
        text = " ".join(rng.choice(WORDS, rng.integers(1, 8)))
        subset = "train-clean-100" if number % 3 else "train-other-500"
        cuts.append(cut(f"utt-{number}", text, round(float(rng.uniform(0.2, 2.0)), 2), subset))
    return Manifest(write_manifest(tmp_path_factory.mktemp("batches") / "train.jsonl", cuts))


def batches_of(manifest, tokenizer=CHARACTERS, augment=None, seed=1, **options):
    config = UtteranceConfig(**{"max_size": 600, "bin_size": 16, **options})
    return UtteranceBatches(manifest, SmoothNoise(), tokenizer, config, seed, augment)


def flat(groups):
    return [batch for group in groups for batch in group]


def equal(first, second):
    tensors = ("features", "feature_lengths", "labels", "label_lengths")
    return first.ids == second.ids and all(torch.equal(getattr(first, t), getattr(second, t)) for t in tensors)


def test_a_batch_holds_each_utterance_padded_with_zeros_and_its_labels_closed_by_the_end_label(manifest):
    cuts = {manifest.id(i): manifest[i] for i in range(len(manifest))}
    seen = []
    for batch in flat(batches_of(manifest).steps(1)):
        assert batch.features.dtype == torch.float32
        assert batch.features.shape == (len(batch), int(batch.feature_lengths.max()), 3)
        assert batch.labels.shape == (len(batch), int(batch.label_lengths.max()))
        assert batch.labels.dtype == batch.label_lengths.dtype == batch.feature_lengths.dtype == torch.int64
        for row, id in enumerate(batch.ids):
            frames, labels = int(batch.feature_lengths[row]), int(batch.label_lengths[row])
            torch.testing.assert_close(batch.features[row, :frames], SmoothNoise().read(cuts[id]))
            assert not batch.features[row, frames:].any()
            assert batch.labels[row, labels - 1 :].tolist() == [0] * (batch.labels.shape[1] - labels + 1)
            assert CHARACTERS.decode(batch.labels[row, :labels]) == cuts[id].supervisions[0].text
        seen += batch.ids
    assert sorted(seen) == sorted(cuts)


def test_padded_frames_stay_below_the_limit(manifest):
    for batch in flat(batches_of(manifest, max_size=400, max_sequences=5).steps(1)):
        assert batch.features.shape[0] * batch.features.shape[1] <= 400
        assert len(batch) <= 5


def test_any_number_of_workers_gives_the_same_batches(manifest):
    batches = batches_of(manifest, augment=shift, speeds=(0.9, 1.1), speed_mode="random", accumulate=2)
    alone = flat(batches.steps(2, steps_before=100))
    for workers in (1, 2):
        for one, other in zip(alone, flat(batches.steps(2, steps_before=100, workers=workers)), strict=True):
            assert equal(one, other)


@pytest.mark.parametrize("world", [2, 3])
def test_processes_share_each_step_and_an_utterance_is_the_same_in_all_of_them(manifest, world):
    batches = batches_of(manifest, augment=shift, max_sequences=5)
    alone = list(batches.steps(1))
    shares = [list(batches.steps(1, rank=rank, world=world)) for rank in range(world)]
    for step, group in enumerate(alone):
        rows = {id: row[:n] for b in group for id, row, n in zip(b.ids, b.features, b.feature_lengths, strict=True)}
        shared = {
            id: row[:n]
            for share in shares
            for b in share[step]
            for id, row, n in zip(b.ids, b.features, b.feature_lengths, strict=True)
        }
        assert rows.keys() == shared.keys()
        assert all(torch.equal(rows[id], shared[id]) for id in rows)


def test_a_share_may_be_empty(manifest):
    batch = batches_of(manifest).load(np.array([], dtype=np.int64), 1)
    assert len(batch) == 0
    assert batch.features.shape == (0, 0, 3)
    assert batch.labels.shape == (0, 0)
    assert batch.feature_lengths.shape == batch.label_lengths.shape == (0,)


def test_resuming_in_the_middle_gives_the_rest(manifest):
    batches = batches_of(manifest, augment=shift)
    whole = list(batches.steps(3, steps_before=50))
    rest = list(batches.steps(3, start=2, steps_before=50))
    assert all(equal(a, b) for a, b in zip(flat(whole[2:]), flat(rest), strict=True))


def test_augmentation_is_new_in_each_sub_epoch_and_knows_the_step(manifest):
    batches = batches_of(manifest, augment=shift)
    first, second = batches.load(np.arange(4), 1, step=7), batches.load(np.arange(4), 2, step=7)
    assert (first.features[:, 0, 0] != second.features[:, 0, 0]).all()
    assert len(set((first.features[:, 0, 0] % 1).tolist())) == 4  # each utterance has its own randomness
    assert torch.equal(first.features[:, 0, 1], torch.full((4,), 1.0 + 7))
    other_seed = batches_of(manifest, augment=shift, seed=2).load(np.arange(4), 1, step=7)
    assert (first.features[:, 0, 0] != other_seed.features[:, 0, 0]).all()


def test_speeds_as_copies_show_every_utterance_at_every_speed(manifest):
    batches = batches_of(manifest, speeds=(0.9, 1.0, 1.1), sub_epochs=2)
    shown = [
        (id, round(float(row[0, 1]), 1))
        for sub_epoch in (1, 2)
        for batch in flat(batches.steps(sub_epoch))
        for id, row in zip(batch.ids, batch.features, strict=True)
    ]
    assert sorted(shown) == sorted((id, speed) for id in manifest.ids() for speed in (0.9, 1.0, 1.1))


def test_random_speeds_show_every_utterance_once_and_change(manifest):
    batches = batches_of(manifest, speeds=(0.9, 1.0, 1.1), speed_mode="random")
    epochs = []
    for sub_epoch in (1, 2):
        speeds = {
            id: round(float(row[0, 1]), 1)
            for batch in flat(batches.steps(sub_epoch))
            for id, row in zip(batch.ids, batch.features, strict=True)
        }
        assert sorted(speeds) == sorted(manifest.ids())
        assert set(speeds.values()) == {0.9, 1.0, 1.1}
        epochs.append(speeds)
    assert epochs[0] != epochs[1]


def test_planned_frames_are_those_of_the_features(manifest):
    batches = batches_of(manifest, speeds=(0.9, 1.0, 1.1))
    items = np.arange(180)
    batch = batches.load(items, 1)
    np.testing.assert_allclose(batches.frames(items, 1), batch.feature_lengths.numpy(), atol=1)


def test_spec_augment_and_the_feature_reader_fit_in(tmp_path):
    """Real audio, real features, real masks; the same for workers."""
    cuts = []
    for number in range(4):
        path = tmp_path / f"{number}.wav"
        soundfile.write(path, np.random.default_rng(number).normal(0, 0.1, 16000 * (number + 1) // 2), 16000)
        recording = Recording.from_file(path)
        words = SupervisionSegment(f"u{number}", recording.id, 0, recording.duration, text="ONE TWO")
        cuts.append(MonoCut(f"u{number}", 0, recording.duration, 0, [words], recording=recording))
    manifest = Manifest(write_manifest(tmp_path / "a.jsonl", cuts))
    reader = FeatureReader(LogMelConfig(normalise="none"))
    config = UtteranceConfig(max_size=500, speeds=(0.9, 1.1))
    augment = SpecAugment(SpecAugmentConfig())
    plain = UtteranceBatches(manifest, reader, CHARACTERS, config)
    masked = UtteranceBatches(manifest, reader, CHARACTERS, config, augment=augment)
    items = np.arange(8)
    np.testing.assert_allclose(plain.load(items, 1).feature_lengths, plain.frames(items, 1), atol=2)
    for group, other, clean in zip(masked.steps(1), masked.steps(1, workers=1), plain.steps(1), strict=True):
        for batch, again, whole in zip(group, other, clean, strict=True):
            assert equal(batch, again)
            assert ((batch.features == 0) & (whole.features != 0)).any()
            kept = batch.features != 0
            assert torch.equal(batch.features[kept], whole.features[kept])


def ids_of(batches, sub_epoch):
    manifest = batches.manifest
    return [manifest.id(item) for item in batches.plan(sub_epoch).items.tolist()]


def test_curriculum_of_the_paper(manifest):
    """Sub-epochs 1-2 the shortest transcripts, 1-3 clean subsets only, then everything."""
    batches = batches_of(
        manifest,
        sub_epochs=2,
        curriculum=(
            CurriculumRule(first=1, last=3, subsets="clean"),
            CurriculumRule(first=1, last=2, max_mean_chars=12),
        ),
    )
    cuts = {manifest.id(i): manifest[i] for i in range(len(manifest))}
    for sub_epoch in (1, 2, 3, 4):
        chosen = [cuts[id] for id in ids_of(batches, sub_epoch)]
        clean = [cut for cut in chosen if "clean" in cut.custom["subset"]]
        lengths = [len(cut.supervisions[0].text) for cut in chosen]
        assert (clean == chosen) == (sub_epoch <= 3)
        assert (np.mean(lengths) <= 12) == (sub_epoch <= 2)
    assert sorted(ids_of(batches, 5) + ids_of(batches, 6)) == sorted(cuts)


def test_curriculum_by_ids(manifest):
    batches = batches_of(manifest, curriculum=(CurriculumRule(last=1, ids=r"utt-\d$"),))
    assert sorted(ids_of(batches, 1)) == [f"utt-{number}" for number in range(10)]
    assert len(ids_of(batches, 2)) == 60
    with pytest.raises(FewerError, match="no subset matches 'dev'"):
        batches_of(manifest, curriculum=(CurriculumRule(last=1, subsets="dev"),))


def test_a_curriculum_that_leaves_nothing_is_an_error(manifest):
    with pytest.raises(FewerError, match="sub-epoch 1 has no data"):
        batches_of(manifest, curriculum=(CurriculumRule(last=1, max_mean_chars=1),)).plan(1)


@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=30), mean=st.floats(1, 40))
@settings(max_examples=100, deadline=None)
def test_shortest_keeps_as_many_of_the_smallest_as_the_mean_allows(sizes, mean):
    sizes = np.array(sizes)
    chosen = shortest(np.arange(len(sizes)), sizes, mean)
    best = max((n for n in range(1, len(sizes) + 1) if np.sort(sizes)[:n].mean() <= mean), default=0)
    assert sorted(sizes[chosen]) == np.sort(sizes)[:best].tolist()
    assert sorted(chosen.tolist()) == chosen.tolist()


@pytest.mark.parametrize("options", [{"max_duration": 1.5}, {"max_size": 150}, {"max_size_from": {9: 150}}])
def test_too_long_utterances_are_named_or_left_out_when_asked(manifest, options, caplog):
    long = {manifest.id(i) for i in range(len(manifest)) if manifest.durations[i] > 1.5}
    with pytest.raises(FewerError, match=f"{len(long)} utterances are longer than 1.5 s") as error:
        batches_of(manifest, **options)
    assert sum(f"{id} (" in str(error.value) for id in long) == min(10, len(long))
    batches = batches_of(manifest, **options, skip_long=True)
    assert f"{len(long)} utterances are longer than 1.5 s" in caplog.text
    assert set(ids_of(batches, 9)) == set(manifest.ids()) - long


def test_a_slow_copy_must_fit_into_a_batch_too(manifest):
    longest = float(manifest.durations.max())
    batches_of(manifest, max_size=round(longest * 100))
    with pytest.raises(FewerError, match="longer than"):
        batches_of(manifest, max_size=round(longest * 100), speeds=(0.8, 1.0))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_label_outside_the_vocabulary_names_the_utterance(manifest, workers):
    tokenizer = train_characters(["ONE", "TWO"])
    with pytest.raises(FewerError, match=r"^utterance utt-\d+: character '.' is not in the vocabulary; .*in the text"):
        list(batches_of(manifest, tokenizer).steps(1, workers=workers))
    words = train_words(["ONE TWO"])
    with pytest.raises(FewerError, match=r"^utterance utt-\d+: the transcript holds what the vocabulary lacks"):
        list(batches_of(manifest, words).steps(1, workers=workers))
    assert flat(batches_of(manifest, words, allow_unknown=True).steps(1, workers=workers))


def test_audio_without_transcripts_has_no_labels(manifest):
    batch = batches_of(manifest, tokenizer=None).load(np.arange(3), 1)
    assert batch.labels.shape == (3, 0)
    assert batch.label_lengths.tolist() == [0, 0, 0]


def test_features_of_a_wrong_shape_name_the_utterance(manifest):
    batches = batches_of(manifest)
    batches.features.dim = 4
    with pytest.raises(FewerError, match=r"utterance utt-0: features have shape \(\d+, 3\), expected \(frames, 4\)"):
        batches.load(np.arange(1), 1)


def slow_square(job):
    time.sleep(0.02 * (job % 3 == 0))  # later jobs are done before earlier ones
    if job == 7:
        raise FewerError("job 7 is bad")
    return job * job


@pytest.mark.parametrize("workers", [0, 2])
def test_reading_ahead_keeps_the_order_and_raises_where_the_error_is(workers):
    results = read_ahead(slow_square, range(10), workers)
    assert [next(results) for _ in range(7)] == [0, 1, 4, 9, 16, 25, 36]
    with pytest.raises(FewerError, match=r"^job 7 is bad$"):
        next(results)


def test_reading_in_this_process_leaves_the_number_of_threads_alone():
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    seen = list(read_ahead(lambda job: torch.get_num_threads(), [0]))
    assert (seen, torch.get_num_threads()) == ([1], 2)
    torch.set_num_threads(threads)
