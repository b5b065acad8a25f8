"""TensorFlow checkpoints, written by the tests' own minimal writer, are read without TensorFlow."""

from pathlib import Path

import numpy as np
import pytest

from fewer.errors import FewerError
from fewer.store.tensorflow import masked_crc, read_checkpoint
from tests.store.tf_writer import crc32c, write_checkpoint

RNG = np.random.default_rng(0)
ARRAYS = {
    "lstm0_fw/rec/W": RNG.normal(size=(3, 8)).astype(np.float32),
    "lstm0_fw/rec/W_re": RNG.normal(size=(2, 8)).astype(np.float32),
    "lstm0_fw/rec/b": RNG.normal(size=8).astype(np.float32),
    "global_step": np.array(295, dtype=np.int64),
    "conv0/W": RNG.normal(size=(3, 3, 1, 200)).astype(np.float32),  # longer than one byte of a length can say
    "statistics": RNG.normal(size=(0, 4)),
}


@pytest.mark.parametrize(("blocks", "shards"), [(1, 1), (3, 1), (7, 2)])
def test_every_tensor_comes_back(tmp_path: Path, blocks: int, shards: int) -> None:
    write_checkpoint(tmp_path / "model/network.295", ARRAYS, blocks, shards)
    for name in ("network.295", "network.295.index"):
        found = read_checkpoint(tmp_path / "model" / name)
        assert set(found) == set(ARRAYS)
        for key, array in ARRAYS.items():
            assert found[key].dtype == array.dtype
            np.testing.assert_array_equal(found[key], array)


def test_the_checksum_is_that_of_leveldb() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C
    crc = crc32c(b"TensorFlow")
    assert masked_crc(b"TensorFlow") == ((crc >> 15 | (crc << 17 & 0xFFFFFFFF)) + 0xA282EAD8) & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda index, data: index.unlink(), r"cannot read .*network.index: .* name the checkpoint without its ending"),
        (lambda index, data: index.write_bytes(index.read_bytes()[:-3]), "not the index of a TensorFlow checkpoint"),
        (lambda index, data: index.write_bytes(b"\1" + index.read_bytes()[1:]), "a checksum is wrong"),
        (lambda index, data: data.unlink(), r"cannot read .*data-00000-of-00001.*copy all files network"),
        (lambda index, data: data.write_bytes(data.read_bytes()[:-10]), "is cut off: "),
    ],
)
def test_damaged_checkpoints_are_named(tmp_path: Path, damage, complaint: str) -> None:
    write_checkpoint(tmp_path / "network", {name: array for name, array in ARRAYS.items() if array.size})
    damage(tmp_path / "network.index", tmp_path / "network.data-00000-of-00001")
    with pytest.raises(FewerError, match=complaint):
        read_checkpoint(tmp_path / "network")
