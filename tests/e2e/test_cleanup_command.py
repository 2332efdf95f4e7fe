"""cleanup-containers on an account that holds more than ours."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import Account, Commands, login

OURS = ["ssbench_000000", "ssbench_000001", "ssbench_999999"]
GOLD = ["ssbench_000000_gold", "ssbench_000001_default_policy"]
MARKED = ["ssbench_000001_removed", "ssbench_1000000_removed"]
NEIGHBOURS = [
    "ssbench_1000000", "ssbench_000001_backup", "ssbench_000001_old",
    "ssbench", "ssbench_", "ssbench_00000", "ssbench_0000000", "ssbench_00000a", "ssbench_backup",
    "ssbenchmark_000001", "Ssbench_000001", "ssbench_000001x", "ssbench_000001 ", "xssbench_000001",
    "ssbench2_000001", "ssbench_000001_gold_ssbench",
]  # fmt: skip
OBJECTS = ["plain", "sla/sh/", "new\nline", "qu'o\"te", "ümläut", "<&amp;>", "%2F", "?a=b", "#"]


@pytest.fixture
def account(fresh_swift: Callable[..., EmbeddedSwift]) -> Account:
    """An account with containers of ours and near misses, all with objects in them."""
    account = Account(fresh_swift())
    for container in OURS + GOLD + MARKED + NEIGHBOURS:
        mark = {"X_Container_Meta_Ssbench": "run"} if container in OURS + MARKED else {}
        assert account("PUT", container, **mark)[0] == 201
        for name in OBJECTS if container == OURS[0] else OBJECTS[:2]:
            assert account.put(container, name) == 201
    return account


def test_cleanup_deletes_only_containers_of_ssbench(commands: Commands, account: Account) -> None:
    command = ["cleanup-containers", *login(account.swift)]
    before = account.contents()
    dry = commands.master(*command, "--dry-run").wait().fine()
    held = len(OBJECTS) + 4
    assert dry.out.startswith(f"Would delete 3 containers with {held} objects ({held} B):\n")
    assert "ssbench_000001  2 objects, 2 B\n" in dry.out
    assert account.contents() == before
    ended = commands.master(*command).wait().fine()
    said = re.search(r"Deleted (\d+) objects and (\d+) containers in [\d.]+ s \(.*/s\)", ended.out)
    assert said, ended.out
    assert said.groups() == (str(held), "3")
    assert account.contents() == {k: v for k, v in before.items() if k not in OURS}
    # A user's own container of a year and a month only has such a name.
    account("PUT", "photos_202401")
    assert account.put("photos_202401", "precious") == 201
    ended = commands.call(*command, "-b", "photos", "--yes").fine()
    assert "No containers to delete" in ended.out
    assert "Left alone: photos_202401: there is no mark of ssbench" in ended.out
    assert "without a terminal to ask at" in commands.master(
        *command, "-b", "photos", "--unmarked"
    ).wait().one_line(2)
    assert account.contents()["photos_202401"] == ["precious"]


def test_cleanup_by_policy_any_policy_and_base(commands: Commands, account: Account) -> None:
    before = account.contents()
    command = ["cleanup-containers", "--unmarked", "--yes", *login(account.swift)]
    commands.master(*command, "-p", "gold").wait().fine()
    left = {k: v for k, v in before.items() if k != "ssbench_000000_gold"}
    assert account.contents() == left
    commands.master(*command, "-b", "ssbench2").wait().fine()
    del left["ssbench2_000001"]
    assert account.contents() == left
    ended = commands.master(*command, "-p", "*", "-c", "3").wait().fine()
    assert "Left alone: ssbench_000001_backup, ssbench_000001_gold_ssbench, " in ended.err
    gone = [*OURS, *GOLD, *MARKED]
    left = {k: v for k, v in left.items() if k not in gone}
    assert account.contents() == left
    commands.master(*command, "-p", "old").wait().fine()
    del left["ssbench_000001_old"]
    assert account.contents() == left


def test_ambiguous_names_are_kept_and_reported(commands: Commands, account: Account) -> None:
    dotted = ["..", ".", "../ssbench_backup/plain", "a/../../ssbench_backup/plain"]
    for name in dotted:
        assert account.put("ssbench_000000", name) == 201
    before = account.contents()
    asked = len(account.swift.access_log().read_text())
    command = ["cleanup-containers", *login(account.swift)]
    ended = commands.master(*command).wait().fine(1)
    assert "Deleted 13 objects and 2 containers" in ended.out
    assert "ssbench_000000: it is not empty: not all of its objects could be deleted" in ended.err
    assert 'ssbench_000000/..: not sent: its name has a segment "." or ".."' in ended.err
    left = {k: v for k, v in before.items() if k not in OURS}
    assert account.contents() == {"ssbench_000000": sorted(dotted), **left}
    paths = [
        line.split(" ")[1] for line in account.swift.access_log().read_text()[asked:].splitlines()
    ]
    assert paths
    assert not [path for path in paths if ".." in path.partition("?")[0]]
