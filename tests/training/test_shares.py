"""Sharing a step between processes."""

from hypothesis import given
from hypothesis import strategies as st

from fewer.training.shares import share
from tests.training.toy_task import ToyData


@given(items=st.integers(2, 30), accumulate=st.integers(1, 4), processes=st.integers(1, 5))
def test_all_processes_together_see_every_item_of_a_step_once(items: int, accumulate: int, processes: int) -> None:
    plan = ToyData(items, accumulate).plan(1)
    for step in range(len(plan)):
        shares = [share(plan, step, rank, processes) for rank in range(processes)]
        seen = [item for part in shares if part.weight for group in part.groups for item in group.tolist()]
        assert sorted(seen) == sorted(item for group in plan.group(step) for item in group.tolist())
        for part in shares:
            assert part.groups
            assert all(len(group) for group in part.groups)
            assert part.planned == len(plan.group(step))
            assert part.weight in (0.0, 1.0)


def test_with_enough_batches_every_process_gets_whole_ones() -> None:
    plan = ToyData(30, 3).plan(1)
    first, second = (share(plan, 0, rank, 2) for rank in range(2))
    whole = [group.tolist() for group in plan.group(0)]
    assert [group.tolist() for group in first.groups] == [whole[0], whole[2]]
    assert [group.tolist() for group in second.groups] == [whole[1]]
