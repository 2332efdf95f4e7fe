"""Names and containers."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.model import SizeClass
from ssbench.core.naming import (
    ANY_POLICY,
    RUN_ID_BYTES,
    LeftAlone,
    ObjectNaming,
    RunNaming,
    container_parts,
    has_dot_segment,
    is_run_id,
    naming_of,
    pack_names,
    unpack_names,
    why_not_ours,
)
from ssbench.core.scenario.values import KEY_NAMES, container_name, crud_profile
from ssbench.core.settings import StorageSettings


def size_class(name: str = "tiny", size_min: int = 1, size_max: int = 999) -> SizeClass:
    return SizeClass(name, size_min, size_max, crud_profile([0, 1, 0, 0]), 100)


SIZES = (size_class(), size_class("small"))


def run_naming(count: int, **changed: Any) -> RunNaming:
    """Names of a run with so many containers."""
    settings = StorageSettings(
        run_id="r1", sizes=SIZES, container_base="b", container_count=count, **changed
    )
    return RunNaming(settings)


def test_run_ids_are_recognised() -> None:
    assert is_run_id(secrets.token_hex(RUN_ID_BYTES))
    others = ["", "2024", "5E1F5E1F00", "5e1f5e1f0", "5e1f5e1f000", "5e1f5e1f0g", "5e1f5e1f00\n",
              "٥e1f5e1f00"]  # fmt: skip
    assert not any(map(is_run_id, others))


def left_alone(
    name: str, base: str, policy: str | None, *policies: str, marked: bool = False
) -> LeftAlone | None:
    return why_not_ours(name, base, policy, policies, lambda: marked, unmarked=True)


@pytest.mark.parametrize("policy", [None, "*", "gold"])
def test_no_name_alone_makes_a_container_ours(policy: str | None) -> None:
    name = container_name("ssbench", 61, None if policy == "*" else policy)
    assert why_not_ours(name, "ssbench", policy, ["gold"], lambda: True) is None
    reason = why_not_ours(name, "ssbench", policy, ["gold"], lambda: False)
    assert reason is LeftAlone.NO_MARK
    other = why_not_ours("ssbench_x", "ssbench", policy, [], lambda: True)
    assert other is LeftAlone.OTHER_NAME


@pytest.mark.parametrize(
    ("name", "policy", "ours"),
    [
        ("ssbench_000061", None, True),
        ("ssbench_999999", None, True),
        ("ssbench_1000000", None, False),
        ("ssbench_12345678", None, False),
        ("ssbench_000061_gold", None, False),
        ("ssbench_000061_gold", "gold", True),
        ("ssbench_1000000_gold", "gold", False),
        ("ssbench_000061_golden", "gold", False),
        ("ssbench_000061", "gold", False),
        ("ssbench_000061_backup", "backup", True),
        ("ssbench_000061_gold", "*", True),
        ("ssbench_000061_GOLD", "*", True),
        ("ssbench_000061_yellow", "*", True),
        ("ssbench_000061_default_policy", "*", True),
        ("ssbench_000061_default_policy", "default_policy", True),
        ("ssbench_000061", "*", True),
        ("ssbench_1000000", "*", False),
        ("ssbench_1000000_gold", "*", False),
        ("ssbench_000001_backup", "*", False),
        ("ssbench_000001_old", "*", False),
        ("ssbench_000001_gold_old", "*", False),
        ("ssbench_000001_gol", "*", False),
        ("ssbench_000001_goldx", "*", False),
        ("ssbench_000001_*", "*", False),
        ("ssbench_000061_g.ld", "g.ld", True),
        ("ssbench_000061_gold", "g.ld", False),
    ],
)
def test_which_containers_without_a_mark_may_be_of_0_3_9(
    name: str, policy: str | None, ours: bool
) -> None:
    assert (left_alone(name, "ssbench", policy, "gold", "Yellow") is None) is ours


@pytest.mark.parametrize("policy", [None, "*", "gold", ""])
@pytest.mark.parametrize(
    "name",
    [
        "ssbench_000061_", "ssbench_000061gold", "ssbench_backup", "ssbenchmark_000001",
        "ssbench_0000611", "ssbench_0100000", "ssbench_00061", "ssbench_000061\n",
        "ssbench_٠٠٠٠٦١", "xssbench_000061", "SSBENCH_000061", "ssbench_00006a", "ssbench", "",
        "ssbench_", "ssbench_000061/gold", "ssbench_000061_gold/..", "ssbench_000061_../gold",
        "ssbench_" + "9" * 11, "ssbench_" + "9" * 5000,
    ],
)  # fmt: skip
def test_the_mark_does_not_make_other_names_ours(name: str, policy: str | None) -> None:
    assert left_alone(name, "ssbench", policy, "gold", "", "../gold", marked=True) is not None


POLICIES = st.text(st.characters(codec="ascii", exclude_characters="/"), min_size=1)


@given(st.text(min_size=1), st.integers(0, 10**8), st.none() | POLICIES, st.booleans())
def test_containers_of_a_run_are_recognised(
    base: str, index: int, policy: str | None, any_policy: bool
) -> None:
    """Every name that ``container_name`` gives comes apart again, and is ours with our mark."""
    name = container_name(base, index, policy)
    assert container_parts(name, base) == (index, policy)
    assert left_alone(name, base, ANY_POLICY if any_policy else policy, marked=True) is None


@given(st.text("ssbench_0169-gold\n/*", max_size=20), st.sampled_from([None, "*", "gold", "old"]))
def test_without_a_mark_only_suffixes_of_existing_policies_are_ours(
    name: str, policy: str | None
) -> None:
    """Ours is six digits behind the base, and what was asked for behind these; no other name."""
    tails = {None: {""}, "*": {"", "_gold", "_default_policy"}, "gold": {"_gold"}, "old": {"_old"}}
    head, number, tail = name[:8], name[8:14], name[14:]
    ours = (head == "ssbench_" and number.isascii() and number.isdigit() and len(number) == 6
            and tail in tails[policy])  # fmt: skip
    assert (left_alone(name, "ssbench", policy, "gold") is None) is ours


@pytest.mark.parametrize("name", [".", "..", "../../AUTH_b/c/o", "a/..", "a/./b", "../a", "/.."])
def test_dot_segments_are_recognised(name: str) -> None:
    assert has_dot_segment(name)


@pytest.mark.parametrize("name", ["", "a", "...", "..a", "a..", ".a/b.", "a//b", "/", "%2e%2e"])
def test_other_dots_are_accepted(name: str) -> None:
    assert not has_dot_segment(name)


def test_created_objects_carry_the_run_s_id_and_initial_ones_do_not() -> None:
    first, second = ObjectNaming(SIZES, "r1", 10), ObjectNaming(SIZES, "r2", 10)
    assert first.object(0, 12) == second.object(0, 12) == "tiny_000012"
    assert (first.object(1, 100), second.object(1, 100)) == ("small_r1_000100", "small_r2_000100")


@given(st.integers(0, 1), st.integers(0, 10**8), st.integers(1, 1000))
def test_the_container_s_index_and_name_agree(index: int, number: int, count: int) -> None:
    naming = run_naming(count)
    assert (
        naming.container(index, number) == naming.containers[naming.container_index(index, number)]
    )


@given(
    st.tuples(st.integers(0, 1), st.integers(0, 300)),
    st.tuples(st.integers(0, 1), st.integers(0, 300)),
)
def test_no_two_objects_share_a_name(one: tuple[int, int], other: tuple[int, int]) -> None:
    naming = ObjectNaming(SIZES, "r1", 10)
    assert (naming.object(*one) == naming.object(*other)) == (one == other)


@given(st.integers(0, 1), st.integers(0, (1 << 32) - 1), st.sampled_from([*KEY_NAMES]))
def test_the_number_of_a_created_object_is_read_back(
    index: int, number: int, key_names: str
) -> None:
    """Every name of a created object gives its number; an initial one's gives none."""
    naming = ObjectNaming(SIZES, "r1", 10, key_names)
    name = naming.object(index, number)
    assert naming.created_number(index, name) == (number if number >= 100 else None)
    assert naming.created_number(1 - index, name) is None
    assert not has_dot_segment(name)
    if key_names == "flat":
        assert name.startswith(naming.created_prefix(index)) is (number >= 100)
    else:
        assert naming.created_prefix(index) == ""


def test_similar_names_have_no_number() -> None:
    naming = ObjectNaming(SIZES, "r1", 10)
    names = [
        "tiny_r1_", "tiny_r1_000099", "tiny_r1_100", "tiny_r1_0000100", "tiny_r1_٠٠٠١٠٠",
        "tiny_r1_000100\n", "tiny_r1_-00100", "tiny_r2_000100", f"tiny_r1_{'1' * 5000}", "000100",
    ]  # fmt: skip
    assert [naming.created_number(0, name) for name in names] == [None] * len(names)


# Strategies -------------------------------------------------------------------------------


def places(
    names: dict[str, object], numbers: range, quoted: Callable[[str], str] = str
) -> list[str]:
    settings = StorageSettings(
        run_id="r 1", sizes=SIZES, container_base="b c", container_count=2, names=names
    )
    naming = naming_of(settings, quoted)
    assert {naming.container(0, n) for n in numbers} <= {*naming.containers}
    return [f"{naming.container(0, n)}/{naming.object(0, n)}" for n in numbers]


def percent(text: str) -> str:
    return quote(text, safe="")


def test_numbered_names_are_a_prefix_and_the_number_in_containers_by_turns() -> None:
    names = {"kind": "numbered", "prefix": "bench/"}
    assert places(names, range(9, 12)) == ["b c1/bench/9", "b c0/bench/10", "b c1/bench/11"]
    assert places(names, range(1), percent) == ["b%20c0/bench%2F0"]


def test_listed_names_are_exactly_these() -> None:
    names = {"kind": "listed", "containers": ["up"], "names": ["a/b.txt", "c d"]}
    assert places(names, range(2)) == ["up/a/b.txt", "up/c d"]
    assert places(names, range(2), percent) == ["up/a%2Fb.txt", "up/c%20d"]
    with pytest.raises(IndexError):
        places(names, range(2, 3))


@pytest.mark.parametrize("names", [{"kind": "other"}, {"kind": "numbered"}, {"kind": "listed"}])
def test_settings_without_a_naming_strategy_are_rejected(names: dict[str, object]) -> None:
    with pytest.raises(KeyError):
        places(names, range(1))


@given(st.lists(st.text(st.characters(exclude_characters="\0"), min_size=1), min_size=1))
def test_listed_names_may_be_packed(names: list[str]) -> None:
    assert unpack_names(pack_names(names)) == names
    settings = StorageSettings(
        names={"kind": "listed", "containers": ["c"], "packed_names": pack_names(names)}
    )
    naming = naming_of(settings)
    assert [naming.object(0, number) for number in range(len(names))] == names


@pytest.mark.parametrize("packed", [b"", b"x", pack_names(["a"])[:-1]])
def test_packed_names_that_are_damaged_are_rejected(packed: bytes) -> None:
    with pytest.raises(ValueError, match="packed names"):
        unpack_names(packed)
