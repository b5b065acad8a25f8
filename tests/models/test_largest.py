"""The largest scores of many, as `topk` gives them."""

import pytest
import torch

from fewer.models.largest import COLUMNS, largest


@pytest.mark.parametrize("size", [7, COLUMNS, 8 * COLUMNS, 9 * COLUMNS - 1, 51864, 51865])
@pytest.mark.parametrize("count", [1, 5])
def test_they_are_those_of_topk(size: int, count: int) -> None:
    values = torch.randperm(6 * size).view(2, 3, size).float()
    found, expected = largest(values, count), values.topk(count)
    assert torch.equal(found[0], expected.values)
    assert torch.equal(found[1], expected.indices)


def test_equal_infinite_and_missing_scores() -> None:
    values = torch.full((2, 30_000), float("-inf"))
    values[0, [5, 5 + COLUMNS, 29_999]] = 1.0  # a column, and the rest behind all columns
    values[1, 77] = float("nan")
    best, places = largest(values, 4)
    assert best[0].tolist() == [1.0, 1.0, 1.0, float("-inf")]
    assert set(places[0, :3].tolist()) == {5, 5 + COLUMNS, 29_999}
    assert len(set(places[0].tolist())) == 4
    assert bool(best[1, 0].isnan())
    assert int(places[1, 0]) == 77
