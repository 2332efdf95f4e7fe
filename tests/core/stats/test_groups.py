"""Sums of groups are of all that was there when they were asked for."""

from __future__ import annotations

from ssbench.core.stats.groups import Groups


def with_one(stage: int, operation: int, size_class: int) -> Groups:
    groups = Groups()
    groups.to_add_to(stage, (operation, size_class)).count += 1
    return groups


def test_groups_add_up_by_operation_class_and_stage() -> None:
    groups = with_one(0, 1, 0)
    for other in (with_one(0, 1, 2), with_one(2, 1, 0), with_one(2, 3, 2)):
        groups.merge(other)
    assert len(groups) == 3
    asked = [(None, None, None), (1, None, None), (None, 2, None), (1, 0, None), (1, 0, 2)]
    assert [groups.total(*each).count for each in asked] == [4, 3, 2, 2, 1]
    assert [groups.total(None, None, stage).count for stage in range(4)] == [2, 0, 2, 0]
    assert {group: tally.count for group, tally in groups.all_stages.items()} == {
        (1, 0): 2, (1, 2): 1, (3, 2): 1,
    }  # fmt: skip


def test_a_sum_is_made_once_and_anew_after_a_change() -> None:
    groups = with_one(0, 1, 0)
    assert groups.total(None, None, None).count == 1
    assert groups.total(None, None, None) is groups.total(None, None, None)
    groups.to_add_to(1, (1, 0)).count += 1
    assert [groups.total(None, None, None).count, groups.total(1, 0, None).count] == [2, 2]
    other = with_one(1, 1, 0)
    groups.merge(other)
    assert [groups.total(1, None, None).count, groups.total(1, None, 1).count] == [3, 2]
    assert groups.all_stages[1, 0].count == 3
    assert other.total(None, None, None).count == 1


def test_nothing_adds_up_to_nothing() -> None:
    assert Groups().total(None, None, None).count == 0
    assert len(Groups()) == 1
