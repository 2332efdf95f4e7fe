"""Stacks with CPU time: merged by function, as a call tree, as lines for other tools."""

from __future__ import annotations

import tracemalloc

from ssbench.core.cpu_profile import (
    MAX_STACKS,
    MAX_STACKS_TEXT,
    OTHER_STACKS,
    CpuProfile,
    call_tree,
    collapsed,
    hot_functions,
)
from ssbench.core.messages import MAX_WORKER_MESSAGE_BYTES, Profiled, encode
from ssbench.core.text import MAX_KEY

STACKS = {
    "main;loop": 10,
    "main;loop;send": 30,
    "main;loop;receive;decode": 50,
    "main;loop;decode": 5,
    "(other threads)": 5,
}


def test_functions_are_merged_over_all_stacks_and_ordered_by_their_own_time() -> None:
    found = [(each.function, each.self_ns, each.total_ns) for each in hot_functions(STACKS)]
    assert found == [
        ("decode", 55, 55), ("send", 30, 30), ("loop", 10, 95), ("(other threads)", 5, 5),
        ("main", 0, 95), ("receive", 0, 50),
    ]  # fmt: skip


def test_a_recursive_function_counts_once_in_its_total_time() -> None:
    walk, leaf = hot_functions({"walk;walk;walk": 4, "walk;walk;leaf": 1})
    assert (walk.function, walk.self_ns, walk.total_ns) == ("walk", 4, 5)
    assert (leaf.function, leaf.self_ns, leaf.total_ns) == ("leaf", 1, 1)


def test_the_call_tree_has_callers_first_and_leaves_out_calls_that_only_pass_on() -> None:
    found = [(each.depth, each.function, each.self_ns, each.total_ns)
             for each in call_tree(STACKS, 0)]  # fmt: skip
    assert found == [
        (0, "loop", 10, 95), (1, "decode", 50, 50), (1, "send", 30, 30), (1, "decode", 5, 5),
        (0, "(other threads)", 5, 5),
    ]  # fmt: skip
    assert [each.function for each in call_tree(STACKS, 30)] == ["loop", "decode", "send"]


def test_lines_for_other_tools_have_the_process_and_microseconds() -> None:
    stacks = {"main (a.py:1);run (b.py:2)": 1_500_400, "rare": 499}
    assert list(collapsed("master", stacks)) == ["master;main (a.py:1);run (b.py:2) 1500\n"]


def test_beyond_the_bounds_the_stacks_with_the_least_time_are_merged() -> None:
    many = {f"main;f{number}": number + 1 for number in range(2 * MAX_STACKS)}
    profile = CpuProfile.of(many, 7, 8)
    assert (len(profile.stacks), profile.samples, profile.overhead_ns) == (MAX_STACKS, 7, 8)
    assert sum(profile.stacks.values()) == sum(many.values())
    assert f"main;f{2 * MAX_STACKS - 1}" in profile.stacks
    assert profile.stacks[OTHER_STACKS] == sum(range(1, MAX_STACKS + 2))
    long = {f"{number};{'x' * 4000}": 1 for number in range(500)}
    kept = CpuProfile.of(long, 1, 1).stacks
    assert sum(map(len, kept)) <= MAX_STACKS_TEXT + len(OTHER_STACKS)
    sent = max(len(encode(Profiled(1, "run", found, 7, 8))) for found in (profile.stacks, kept))
    assert sent < MAX_WORKER_MESSAGE_BYTES
    assert (len(kept), sum(kept.values())) == (99, 500)


def test_of_a_stack_longer_than_a_key_the_outer_calls_are_cut_off() -> None:
    """A record with a longer key made the stat file unreadable from there on."""
    deep = ";".join(f"function_{number} (module.py:{number})" for number in range(1000))
    (kept,) = CpuProfile.of({deep: 3}, 1, 1).stacks
    assert MAX_KEY - 40 < len(kept) <= MAX_KEY
    assert deep.endswith(f";{kept}")
    assert CpuProfile.of({"x" * (MAX_KEY + 1): 3}, 1, 1).stacks == {OTHER_STACKS: 3}
    both = {f"{outer};{deep}": 1 for outer in "ab"}
    assert CpuProfile.of(both, 1, 1).stacks == {kept: 2}


def test_a_call_tree_of_deep_stacks_uses_bounded_memory() -> None:
    """Each call was kept with the text of all its callers: 4 GB for profiles within the bounds."""
    stacks = {f"{number};" + "f;" * ((1 << 13) - 4) + "g": 9 for number in range(9)}
    tracemalloc.start()
    try:
        assert [each.function for each in call_tree(stacks, 0)] == ["g"] * 9
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()
