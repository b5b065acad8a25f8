"""What holds for every corpus: options, all or nothing, and memory that does not grow."""

import gc
import tracemalloc

import pytest

from fewer.data.audio import load_audio
from fewer.data.corpora.prepare import PrepareOptions, prepare
from fewer.data.corpora.split import Split
from fewer.data.corpora.texts import Case
from fewer.errors import FewerError
from tests.data.corpora.builders import librispeech, pitch, read_cuts, texts, write_audio, write_lines


def mixed_rates(root):
    write_audio(root / "data/a.wav", [(0.5, 400)], rate=16000)
    write_audio(root / "data/b.wav", [(0.5, 500)], rate=8000)
    write_lines(root / "data/wav.scp", "a a.wav", "b b.wav")
    write_lines(root / "data/text", "a yes", "b no")
    write_lines(root / "data/utt2spk", "a x", "b x")
    return root / "data"


def test_mixed_rates_are_an_error_that_names_both_files(tmp_path):
    with pytest.raises(FewerError, match=r"b.wav: is sampled at 8000 Hz, but .*a.wav of the same set at 16000 Hz"):
        prepare("kaldi", mixed_rates(tmp_path), tmp_path / "out")


def test_mixed_rates_are_resampled_on_request(tmp_path):
    prepare("kaldi", mixed_rates(tmp_path), tmp_path / "out", PrepareOptions(resample=16000))
    cuts = read_cuts(tmp_path / "out/data.jsonl")
    assert [cut.sampling_rate for cut in cuts] == [16000, 16000]
    assert [len(load_audio(cut, 16000)) for cut in cuts] == [8000, 8000]
    assert [round(pitch(cut), -1) for cut in cuts] == [400, 500]


def test_unusual_rates_need_resampling(tmp_path):
    data = mixed_rates(tmp_path)
    for name in "ab":
        write_audio(data / f"{name}.wav", [(0.5, 400)], rate=44100)
    with pytest.raises(FewerError, match=r"a.wav: is sampled at 44100 Hz; ask for --resample"):
        prepare("kaldi", data, tmp_path / "out")
    prepare("kaldi", data, tmp_path / "out", PrepareOptions(resample=16000))
    assert {cut.num_samples for cut in read_cuts(tmp_path / "out/data.jsonl")} == {8000}


def test_letters_and_text_files(tmp_path):
    corpus = librispeech(tmp_path)
    prepare("librispeech", corpus, tmp_path / "out", PrepareOptions(sets=("dev-clean",), case=Case.LOWER, text=True))
    assert texts(tmp_path / "out/dev-clean.jsonl")["84-121123-0000"] == "go do you hear"
    assert (tmp_path / "out/dev-clean.txt").read_text().splitlines() == list(
        texts(tmp_path / "out/dev-clean.jsonl").values()
    )


def test_split_by_speaker(tmp_path):
    corpus = librispeech(tmp_path)
    options = PrepareOptions(sets=("dev-clean",), splits=(Split.parse("dev-clean=tune:1,report"),), text=True)
    summaries = prepare("librispeech", corpus, tmp_path / "out", options)
    assert [(one.name, one.utterances, one.speakers) for one in summaries] == [
        ("dev-clean", 3, {"84", "1272"}),
        ("tune", 2, {"84"}),
        ("report", 1, {"1272"}),
    ]
    whole, tune, report = (texts(tmp_path / f"out/{one.name}.jsonl") for one in summaries)
    assert tune | report == whole
    assert list(tune) == ["84-121123-0000", "84-121123-0001"]
    assert (tmp_path / "out/tune.txt").read_text().splitlines() == list(tune.values())
    assert sum(one.seconds for one in summaries[1:]) == pytest.approx(summaries[0].seconds)
    assert sum(one.words for one in summaries[1:]) == summaries[0].words


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (PrepareOptions(sets=("dev-other",)), "has no set 'dev-other'; it has dev-clean, train-clean-5"),
        (PrepareOptions(splits=(Split.parse("test=a:1,b"),)), "there is no set 'test'"),
        (PrepareOptions(splits=(Split.parse("dev-clean=train-clean-5:1,b"),)), "name of two sets"),
        (PrepareOptions(splits=(Split.parse("dev-clean=a:2,b"),)), "dev-clean has 2 speakers"),
        (PrepareOptions(transcripts=librispeech), "there is no folder"),
    ],
)
def test_impossible_wishes(tmp_path, options, message):
    corpus = librispeech(tmp_path)
    if options.transcripts:
        options = PrepareOptions(transcripts=tmp_path / "nowhere")
    with pytest.raises(FewerError, match=message):
        prepare("librispeech", corpus, tmp_path / "out", options)
    assert not (tmp_path / "out").exists()


def test_unknown_corpus_and_missing_folder(tmp_path):
    with pytest.raises(FewerError, match=r"unknown corpus 'timit'; there are table, folder, .*librispeech, tedlium2"):
        prepare("timit", tmp_path, tmp_path / "out")
    with pytest.raises(FewerError, match="there is no folder"):
        prepare("kaldi", tmp_path / "nowhere", tmp_path / "out")


def test_an_error_in_the_last_set_leaves_earlier_results_as_they_were(tmp_path):
    corpus = librispeech(tmp_path)
    prepare("librispeech", corpus, tmp_path / "out")
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    write_lines(corpus / "dev-clean/84/121123/84-121123.trans.txt", "84-121123-0000 CHANGED", "84-121123-0001 TOO")
    (corpus / "train-clean-5/103/1240/103-1240-0000.flac").unlink()
    with pytest.raises(FewerError):
        prepare("librispeech", corpus, tmp_path / "out")
    assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_preparing_again_gives_the_same_bytes_and_forgets_old_lists_of_skipped_entries(tmp_path):
    corpus = librispeech(tmp_path)
    prepare("librispeech", corpus, tmp_path / "out")
    before = (tmp_path / "out/dev-clean.jsonl").read_bytes()
    (corpus / "dev-clean/84/121123/84-121123-0002.flac").write_bytes(b"noise")
    prepare("librispeech", corpus, tmp_path / "out", PrepareOptions(skip_bad=True))
    assert (tmp_path / "out/dev-clean.jsonl").read_bytes() == before
    assert (tmp_path / "out/dev-clean.skipped.txt").exists()
    (corpus / "dev-clean/84/121123/84-121123-0002.flac").unlink()
    prepare("librispeech", corpus, tmp_path / "out")
    assert not (tmp_path / "out/dev-clean.skipped.txt").exists()


def test_a_set_of_which_nothing_is_usable_is_an_error_even_when_skipping(tmp_path):
    data = mixed_rates(tmp_path)
    for name in "ab":
        (data / f"{name}.wav").write_bytes(b"?")
    with pytest.raises(FewerError, match=r"set data has no usable utterance:\n.*a.wav: cannot be read"):
        prepare("kaldi", data, tmp_path / "out", PrepareOptions(skip_bad=True))


def many_utterances(root, count):
    write_audio(root / "long.wav", [(10, 300)], rate=8000)
    write_lines(root / "wav.scp", "long long.wav")
    names = [f"utterance-{number:06d}" for number in range(count)]
    write_lines(root / "segments", *(f"{name} long {number % 9} {number % 9 + 1}" for number, name in enumerate(names)))
    write_lines(root / "text", *(f"{name} some words that are said" for name in names))
    write_lines(root / "utt2spk", *(f"{name} anna" for name in names))
    return root


def test_memory_does_not_grow_with_the_corpus(tmp_path):
    prepare("kaldi", many_utterances(tmp_path / "few", 10), tmp_path / "out")  # imports what is needed
    source = many_utterances(tmp_path / "many", 4000)

    def peak():
        gc.collect()
        tracemalloc.start()
        prepare("kaldi", source, tmp_path / "out")
        _, highest = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return highest

    # what some library happens to load or to keep meanwhile, it does not load again
    assert any(peak() < (tmp_path / "out/many.jsonl").stat().st_size / 2 for _ in range(3))
