"""speechocean762: {train,test}/{wav.scp,text,utt2spk,spk2gender}, with audio paths relative to the corpus's folder."""

from dataclasses import replace

from fewer.data.corpora.corpus import Source, SpeechSet
from fewer.data.corpora.kaldi import sets as data_folder_sets
from fewer.data.corpora.places import find_root

SETS = ("train", "test")


def sets(source: Source) -> list[SpeechSet]:
    """Both splits, or whichever is there; they are Kaldi data directories."""
    root = find_root(
        source.folder,
        lambda folder: any((folder / name / "wav.scp").is_file() for name in SETS),
        "train/wav.scp or test/wav.scp",
    )
    return [one for one in data_folder_sets(replace(source, folder=root)) if one.name in SETS]
