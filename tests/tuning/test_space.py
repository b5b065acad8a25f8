"""Which parameters are tuned, which are fixed or tied, and how the user's signs become the search's."""

import pytest
from pydantic import ValidationError

from fewer.errors import FewerError
from fewer.search.nbest import LengthPolicy
from fewer.tuning.space import Space, SpaceOptions

TERMS = ("aed", "lm", "ilm")


def free(space: Space) -> list[str]:
    return [dimension.name for dimension in space.free]


def test_the_recogniser_is_fixed_at_one_and_lm_ilm_and_length_are_free() -> None:
    space = Space(TERMS, SpaceOptions())
    assert free(space) == ["lm", "ilm", "exponent"]
    scales = space.scales({"lm": 0.5, "ilm": 0.3, "exponent": 0.9})
    assert scales.terms == {"aed": 1.0, "lm": 0.5, "ilm": -0.3}
    assert scales.length == LengthPolicy(exponent=0.9, reward=0.0)


def test_lambda_1_and_2_span_the_surface_whatever_the_order_of_terms() -> None:
    space = Space(("ilm", "ctc", "aed", "lm"), SpaceOptions())
    assert free(space) == ["lm", "ilm", "ctc", "exponent"]
    assert list(space.scales({"lm": 0.1, "ilm": 0.2, "ctc": 0.3, "exponent": 1.0}).terms) == ["ilm", "ctc", "aed", "lm"]


def test_a_tuned_reward_means_no_normalisation() -> None:
    space = Space(TERMS, SpaceOptions(length="reward"))
    assert free(space) == ["lm", "ilm", "reward"]
    assert space.scales({"lm": 0, "ilm": 0, "reward": 0.4}).length == LengthPolicy(exponent=0.0, reward=0.4)


def test_fixed_length_is_the_average_per_label() -> None:
    space = Space(TERMS, SpaceOptions(length="fixed"))
    assert free(space) == ["lm", "ilm"]
    assert space.scales({"lm": 0, "ilm": 0}).length == LengthPolicy()


def test_the_user_sees_positive_scales_and_the_search_negative_ones() -> None:
    space = Space((*TERMS, "dr"), SpaceOptions(length="fixed"), subtracted=frozenset({"ilm", "dr"}))
    scales = space.scales({"lm": 0.5, "ilm": 0.25, "dr": 0.0})
    assert scales.terms == {"aed": 1.0, "lm": 0.5, "ilm": -0.25, "dr": 0.0}
    assert str(scales.terms["dr"]) == "0.0"


def test_a_fixed_scale_is_not_free() -> None:
    space = Space(TERMS, SpaceOptions(length="fixed", fixed={"ilm": 0.2}))
    assert free(space) == ["lm"]
    assert space.scales({"lm": 0.5}).terms == {"aed": 1.0, "lm": 0.5, "ilm": -0.2}


def test_a_tied_scale_follows_the_other() -> None:
    space = Space(TERMS, SpaceOptions(length="fixed", tied={"ilm": (0.5, "lm")}))
    assert free(space) == ["lm"]
    assert space.scales({"lm": 0.6}).terms["ilm"] == -0.3


def test_a_range_limits_the_axis_and_keeps_the_step() -> None:
    space = Space(TERMS, SpaceOptions(length="fixed", ranges={"ilm": (0.1, 0.3)}))
    assert space.dimension("ilm").axis[:3].tolist() == [0.1, 0.11, 0.12]
    assert space.dimension("ilm").axis[-1] == 0.3
    assert space.dimension("lm").axis[-1] == 1.5


def test_a_range_for_the_recogniser_frees_its_scale() -> None:
    assert "aed" in free(Space(TERMS, SpaceOptions(ranges={"aed": (0.5, 1.5)})))


def test_coarse_axis_keeps_both_ends() -> None:
    axis = Space(TERMS, SpaceOptions()).dimension("lm").coarse(27)
    assert len(axis) == 27
    assert (axis[0], axis[-1]) == (0.0, 1.5)


@pytest.mark.parametrize(
    "options",
    [{"ranges": {"lmm": (0, 1)}}, {"fixed": {"lmm": 1}}, {"tied": {"lmm": (1, "lm")}}, {"tied": {"lm": (1, "lmm")}}],
)
def test_an_unknown_parameter_is_named_with_those_that_exist(options: dict) -> None:
    with pytest.raises(FewerError, match=r"'lmm'.*aed, lm, ilm, reward, exponent"):
        Space(TERMS, SpaceOptions(**options))


def test_a_range_for_a_length_parameter_that_is_not_tuned_is_refused() -> None:
    with pytest.raises(FewerError, match="reward"):
        Space(TERMS, SpaceOptions(length="exponent", ranges={"reward": (0, 1)}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ranges": {"lm": (1.0, 0.5)}}, "lower end"),
        ({"fixed": {"ilm": 0.1}, "tied": {"ilm": (1, "lm")}}, "both fixed and tied"),
        ({"tied": {"ilm": (1, "lm"), "lm": (1, "aed")}}, "tied itself"),
        ({"fixed": {"ilm": 0.1}, "ranges": {"ilm": (0, 1)}}, "leave the range out"),
        ({"step": 0}, "positive"),
    ],
)
def test_contradictory_constraints_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SpaceOptions(**options)
