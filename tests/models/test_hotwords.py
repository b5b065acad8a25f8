"""Rewarded hotwords against a slow scorer that compares labels one by one."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer.models.hotwords import Hotwords
from fewer.models.lm import LmScorer
from fewer.search.fusion import Fusion
from fewer.search.rules import Suppression
from tests.models.test_ngram import CountOperations
from tests.search.toys import TableScorer

END, V = 0, 7
STARTS = torch.tensor([False, True, True, False, False, False, False])  # labels 1 and 2 begin words
SPLITS = torch.tensor([False, False, False, False, False, True, False])  # label 5 is a comma
NEVER = torch.zeros(V, dtype=torch.bool)


class Slow:
    """What a hypothesis has earned, from its labels alone."""

    def __init__(
        self, hotwords: dict[tuple[int, ...], float], starts: torch.Tensor, ends: torch.Tensor, splits: torch.Tensor
    ):
        self.hotwords = hotwords
        self.starts, self.ends, self.splits = starts.tolist(), ends.tolist(), splits.tolist()

    def begins(self, labels: Sequence[int], place: int) -> bool:
        return place == 0 or self.starts[labels[place]] or self.ends[labels[place - 1]]

    def earned(self, labels: Sequence[int]) -> float:
        complete, ahead = 0.0, 0.0
        for place in range(len(labels)):
            if not self.begins(labels, place):
                continue
            for hotword, weight in self.hotwords.items():
                after = place + len(hotword)
                if tuple(labels[place:after]) == hotword and after < len(labels):
                    shown = labels[after] == END or self.splits[labels[after]] or self.begins(labels, after)
                    complete += weight * len(hotword) if shown else 0.0
                rest = tuple(labels[place:])
                if hotword[: len(rest)] == rest:
                    ahead = max(ahead, weight * len(rest))
        return complete if labels and labels[-1] == END else complete + ahead

    def score(self, labels: Sequence[int], next_label: int) -> float:
        return self.earned([*labels, next_label]) - self.earned(labels)


inner = st.integers(1, V - 1)
flags = st.lists(st.booleans(), min_size=V, max_size=V).map(lambda values: torch.tensor([False, *values[1:]]))
phrase_sets = st.dictionaries(
    st.lists(inner, min_size=1, max_size=4).map(tuple), st.sampled_from([0.5, 1.0, 2.0]), min_size=1, max_size=6
)


@settings(max_examples=40, deadline=None)
@given(hotwords=phrase_sets, labels=st.lists(inner, max_size=9), starts=flags, ends=flags, splits=flags)
def test_every_label_scores_what_it_changes(
    hotwords: dict[tuple[int, ...], float],
    labels: list[int],
    starts: torch.Tensor,
    ends: torch.Tensor,
    splits: torch.Tensor,
) -> None:
    slow, fast = Slow(hotwords, starts, ends, splits), Hotwords(hotwords, starts, ends, splits, END)
    found = fast.log_probs(torch.tensor([[*labels, END]]))[0]
    expected = [[slow.score(labels[:n], v) for v in range(V)] for n in range(len(labels) + 1)]
    torch.testing.assert_close(found, torch.tensor(expected))


def total(hotwords: Hotwords, labels: list[int]) -> float:
    row = torch.tensor([[*labels, END]])
    return hotwords.log_probs(row).gather(2, row[:, :, None]).sum().item()


def test_a_whole_phrase_is_rewarded_and_a_part_of_one_is_not() -> None:
    hotwords = Hotwords({(1, 3, 4): 2.0}, STARTS, NEVER, SPLITS, END)
    assert total(hotwords, [2, 1, 3, 4]) == 6.0
    assert total(hotwords, [1, 3, 4, 5, 2]) == 6.0  # a comma ends the word
    assert total(hotwords, [1, 3]) == 0.0
    assert total(hotwords, [1, 3, 4, 6]) == 0.0  # the word goes on: it is another one
    assert total(hotwords, [2, 3, 4]) == 0.0
    assert hotwords.step(hotwords.start(1), torch.tensor([-1]))[0].tolist() == [[0, 2, 0, 0, 0, 0, 0]]  # in advance


def test_phrases_that_share_labels_all_count() -> None:
    hotwords = Hotwords({(1, 2): 1.0, (2, 1): 1.0, (1, 2, 1): 1.0}, STARTS, NEVER, SPLITS, END)
    assert total(hotwords, [1, 2, 1]) == 2 + 2 + 3
    assert hotwords.depth == 3


def test_suppressed_labels_leave_rewards_as_they_are() -> None:
    scorer = LmScorer(Hotwords({(1, 3): 1.0}, STARTS, NEVER, SPLITS, END), "words")
    suppress = torch.tensor([False, False, True, False, False, False, False])
    fusion = Fusion([TableScorer(1, V), scorer], {"words": 1.0}, END, [Suppression(suppress)])
    memory, states = fusion.start([0])
    _, log_probs, _ = fusion.step(memory, states, torch.tensor([-1]))
    assert log_probs[1][0].tolist() == [0, 1, 0, 0, 0, 0, 0]
    assert log_probs[0][0][~suppress].exp().sum().item() == pytest.approx(1)


def test_a_step_does_as_much_for_many_hypotheses_as_for_one() -> None:
    hotwords = Hotwords({(1, 3, 4): 1.0, (3, 4): 1.0, (2, 3): 2.0}, STARTS, NEVER, SPLITS, END)
    counts = []
    for rows in (1, 64):
        state = hotwords.step(hotwords.start(rows), torch.full((rows,), 1))[1]
        with CountOperations() as operations:
            hotwords.step(state, torch.full((rows,), 3))
        counts.append(operations.count)
    assert counts[0] == counts[1]


@pytest.mark.parametrize("hotwords", [{(): 1.0}, {(1,): 0.0}, {(1,): float("nan")}])
def test_a_phrase_has_labels_and_a_positive_weight(hotwords: dict[tuple[int, ...], float]) -> None:
    with pytest.raises(ValueError, match="needs labels and a positive weight"):
        Hotwords(hotwords, STARTS, NEVER, SPLITS, END)
