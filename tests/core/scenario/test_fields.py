import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.scenario.fields import (
    container_base,
    crud_profile,
    delete_after,
    policy,
    profile,
)
from ssbench.core.units import ValidationError

WEIGHTS = st.floats(0, 1.7e308, allow_nan=False)


def test_a_profile_is_four_shares() -> None:
    assert crud_profile([3, 4, 2, 2]) == ((0, 3 / 11), (1, 4 / 11), (2, 2 / 11), (3, 2 / 11))
    assert crud_profile([0, 0, 0, 1e-320]) == ((3, 1),)


@pytest.mark.parametrize(
    ("raw", "wrong"),
    [
        ([0, 0, 0, 0], "all four weights are 0"),
        ([1, 2, 3], "has 3 entries"),
        ([1, 2, 3, 4, 5], "has 5 entries"),
        ([1, 2, 3, -4], "-4 is below 0"),
        ([1, 2, 3, "4"], '"4" is a string'),
        ([1, 2, 3, True], "true is a truth value"),
        ([1, 2, 3, None], "null is null"),
        ([1, 2, 3, math.inf], "Infinity is not a finite number"),
        ({"C": 1}, "is an object"),
        (100, "100 is"),
    ],
)
def test_other_profiles_are_rejected(raw: object, wrong: str) -> None:
    with pytest.raises(ValidationError) as caught:
        crud_profile(raw)
    assert wrong in str(caught.value)


@given(st.tuples(WEIGHTS, WEIGHTS, WEIGHTS, WEIGHTS).filter(any))
def test_shares_are_not_normalised_if_they_sum_to_one(weights: tuple[float, ...]) -> None:
    shares = dict(profile(dict(enumerate(weights))))
    assert math.isclose(math.fsum(shares.values()), 1, abs_tol=2e-9)
    assert dict(profile(shares)) == shares


def test_containers_have_no_slash_and_at_most_256_bytes() -> None:
    assert container_base("x" * 249) == "x" * 249
    for base in ["a/b", "", "x" * 250, "é" * 125, 5]:
        with pytest.raises(ValidationError):
            container_base(base)


@pytest.mark.parametrize("raw", ["", "two words", "a/b", "größe", "a\r\nX-Evil: 1", 1])
def test_policies_fit_a_header_and_a_container_name(raw: object) -> None:
    assert policy("Policy-0") == "Policy-0"
    with pytest.raises(ValidationError):
        policy(raw)


def test_delete_after_0_means_never() -> None:
    assert delete_after(0) is None
    assert delete_after(60) == 60
