"""Compressed files: real ones are read, those that fill the disk or the memory are not."""

import gzip
import lzma
from pathlib import Path

import pytest

from fewer.data import lines
from fewer.data.lines import read_raw_lines
from fewer.data.manifest import Manifest
from fewer.errors import FewerError

PACK = {"gz": gzip.compress, "xz": lzma.compress}


@pytest.mark.parametrize("kind", PACK)
def test_streams_one_after_the_other_are_one_file(tmp_path: Path, kind: str) -> None:
    path, text = tmp_path / "a", b"".join(b"line %d\n" % number for number in range(30_000))
    path.write_bytes(PACK[kind](text[:1000]) + PACK[kind](text[1000:]) + b"\0" * 512)
    assert b"".join(read_raw_lines(path)) == text


@pytest.mark.parametrize("kind", PACK)
def test_a_file_that_unpacks_to_far_more_than_text_does_is_refused(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "FREE_SIZE", 1 << 20)
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(PACK[kind]((b"x" * 1023 + b"\n") * 20_000))
    with pytest.raises(FewerError, match=r"a\.jsonl\.gz: .* bytes unpack to more than [\d,]+; .*unpack the file"):
        list(read_raw_lines(path))
    if kind == "gz":
        with pytest.raises(FewerError, match="unpack to more than"):
            Manifest(path)
        assert [file.name for file in tmp_path.iterdir()] == ["a.jsonl.gz"]


def test_xz_files_that_need_gigabytes_to_unpack_are_refused(tmp_path: Path) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 29}]
    whole = lzma.compress(b"a line\n", filters=[{"id": lzma.FILTER_LZMA2, "preset": 0}])
    path = tmp_path / "a.xz"
    path.write_bytes(whole)
    assert list(read_raw_lines(path)) == [b"a line\n"]
    path.write_bytes(lzma.compress(b"a line\n", filters=filters))
    with pytest.raises(FewerError, match="Memory usage limit"):
        list(read_raw_lines(path))
