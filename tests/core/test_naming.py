"""Names, containers and initial sizes."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.model import SizeClass
from ssbench.core.naming import Naming, container_name, initial_size


def size_class(name: str = "tiny", size_min: int = 1, size_max: int = 999) -> SizeClass:
    return SizeClass(name, size_min, size_max, (0, 1, 0, 0), 100)


SIZES = [size_class(), size_class("small")]


def test_containers_are_numbered_with_six_digits_and_carry_their_policy() -> None:
    assert container_name("ssbench", 61) == "ssbench_000061"
    assert container_name("ssbench", 61, "gold") == "ssbench_000061_gold"
    assert container_name("x", 1_000_000) == "x_1000000"
    assert Naming(SIZES, "r1", "b", 2, "gold").containers == ["b_000000_gold", "b_000001_gold"]


def test_created_objects_carry_the_run_s_id_and_initial_ones_do_not() -> None:
    first, second = Naming(SIZES, "r1", "b", 10), Naming(SIZES, "r2", "b", 10)
    assert first.object(0, 12) == second.object(0, 12) == "tiny_000012"
    assert (first.object(1, 100), second.object(1, 100)) == ("small_r1_000100", "small_r2_000100")


def test_the_objects_of_a_class_are_spread_evenly_over_the_containers() -> None:
    naming = Naming(SIZES, "r1", "b", 10)
    assert set(Counter(naming.container(0, number) for number in range(100)).values()) == {10}


@given(st.integers(0, 1), st.integers(0, 10**8), st.integers(1, 1000))
def test_the_container_s_index_and_name_agree(index: int, number: int, count: int) -> None:
    naming = Naming(SIZES, "r1", "b", count)
    assert (
        naming.container(index, number) == naming.containers[naming.container_index(index, number)]
    )


@given(
    st.tuples(st.integers(0, 1), st.integers(0, 300)),
    st.tuples(st.integers(0, 1), st.integers(0, 300)),
)
def test_no_two_objects_share_a_name(one: tuple[int, int], other: tuple[int, int]) -> None:
    naming = Naming(SIZES, "r1", "b", 10)
    assert (naming.object(*one) == naming.object(*other)) == (one == other)


@given(st.integers(0, 2**40), st.integers(0, 2**33), st.integers(0, 10**7))
def test_initial_sizes_are_within_the_class_and_the_same_again(
    size_min: int, spread: int, number: int
) -> None:
    size = size_class("any", size_min, size_min + spread)
    assert size_min <= initial_size(size, number) <= size_min + spread
    assert initial_size(size, number) == initial_size(size, number)


def test_initial_sizes_stay_as_they_were_in_earlier_releases() -> None:
    """Were they to change, every object of a cluster would be uploaded again."""
    assert [initial_size(size_class(), number) for number in range(4)] == [173, 232, 372, 375]


def test_initial_sizes_are_uniform_both_ends_included() -> None:
    counts = Counter(initial_size(size_class("even", 5, 8), number) for number in range(4000))
    assert set(counts) == {5, 6, 7, 8}
    assert all(abs(count - 1000) < 3 * (4000 * 0.25 * 0.75) ** 0.5 for count in counts.values())


@given(st.integers(0, 1), st.integers(0, (1 << 32) - 1))
def test_the_number_of_a_created_object_is_read_back(index: int, number: int) -> None:
    """Every name of a created object gives its number; an initial one's gives none."""
    naming = Naming(SIZES, "r1", "b", 10)
    name = naming.object(index, number)
    assert naming.created_number(index, name) == (number if number >= 100 else None)
    assert name.startswith(naming.created_prefix(index)) is (number >= 100)


def test_what_is_almost_such_a_name_has_no_number() -> None:
    naming = Naming(SIZES, "r1", "b", 10)
    names = [
        "tiny_r1_", "tiny_r1_000099", "tiny_r1_100", "tiny_r1_0000100", "tiny_r1_٠٠٠١٠٠",
        "tiny_r1_000100\n", "tiny_r1_-00100", "tiny_r2_000100", f"tiny_r1_{'1' * 5000}", "000100",
    ]  # fmt: skip
    assert [naming.created_number(0, name) for name in names] == [None] * len(names)
