from __future__ import annotations

import io
import re
from typing import Any

import pytest

from ssbench.cli.cleanup_command import run
from ssbench.cli.deleting import Deleting
from ssbench.cli.progress import make_progress
from ssbench.core.errors import ExitStatus, StorageError
from ssbench.core.naming import container_name
from tests.fakes.memory_storage import MemoryStorage, MemoryStore, status_error


class Command:
    """One call of the command, with what it printed."""

    def __init__(self, store: MemoryStore, answer: str = "", **options: Any) -> None:
        out, err = io.StringIO(), io.StringIO()
        base, policy = options.pop("base", "ssbench"), options.pop("policy", None)
        given: dict[str, Any] = {"concurrency": 4, "dry_run": False, "yes": False, "isatty": False}
        around = Deleting(
            **{**given, **options},
            storage=MemoryStorage(store),
            out=out,
            err=err,
            stdin=io.StringIO(answer),
            progress=make_progress("chars", err),
        )
        self.status = run(around, base=base, policy=policy)
        self.out, self.err = out.getvalue(), err.getvalue()


def filled(containers: int = 3) -> MemoryStore:
    store = MemoryStore()
    for index in range(containers):
        store.add(container_name("ssbench", index), "a", "b", size=1500)
    store.add("ssbench_backup", "precious")
    store.add("ssbench_000000_gold", "precious")
    return store


def test_it_says_what_it_deletes_and_what_it_did() -> None:
    store = filled()
    done = Command(store, yes=True)
    assert done.status is ExitStatus.OK
    assert done.err.splitlines()[:2] == [
        "Deleting 3 containers with 6 objects (9.0 kB):",
        "  ssbench_000000  2 objects, 3.0 kB",
    ]
    assert re.fullmatch(
        r"Deleted 6 objects and 3 containers in [\d.]+ s"
        r" \([\d,.]+ objects/s, [\d,.]+ containers/s\)\.\n",
        done.out,
    )
    assert list(store.containers) == ["ssbench_backup", "ssbench_000000_gold"]


def test_a_policy_has_its_own_containers() -> None:
    store = filled()
    assert Command(store, policy="gold").status is ExitStatus.OK
    assert "ssbench_000000_gold" not in store.containers
    assert len(store.containers) == 4


def test_a_dry_run_names_all_and_deletes_nothing() -> None:
    store = filled(15)
    done = Command(store, dry_run=True, isatty=True)
    assert done.status is ExitStatus.OK
    assert done.out.startswith("Would delete 15 containers with 30 objects (45.0 kB):\n")
    assert done.out.count("\n") == 17
    assert len(store.containers) == 17
    assert not store.count("delete_object")


def test_of_many_containers_ten_are_named() -> None:
    assert "  ... and 5 more containers, up to ssbench_000014\n" in Command(filled(15)).err


@pytest.mark.parametrize("answer", ["y\n", "Yes\n", "yes"])
def test_on_a_terminal_it_asks(answer: str) -> None:
    store = filled()
    done = Command(store, answer, isatty=True)
    assert "About to delete 3 containers" in done.err
    assert "Delete them? [y/N]" in done.err
    assert done.status is ExitStatus.OK
    assert len(store.containers) == 2


@pytest.mark.parametrize("answer", ["n\n", "\n", "", "yesterday\n"])
def test_anything_but_a_yes_is_a_no(answer: str) -> None:
    store = filled()
    done = Command(store, answer, isatty=True)
    assert done.status is ExitStatus.FAILED
    assert done.err.endswith("Nothing was deleted.\n")
    assert len(store.containers) == 5


@pytest.mark.parametrize("options", [{"isatty": False}, {"isatty": True, "yes": True}])
def test_nobody_is_asked_in_a_script_or_after_a_yes(options: dict[str, bool]) -> None:
    done = Command(filled(), **options)
    assert done.status is ExitStatus.OK
    assert "[y/N]" not in done.err


def test_nothing_to_delete_is_fine() -> None:
    done = Command(MemoryStore(), policy="*", isatty=True)
    assert done.status is ExitStatus.OK
    assert done.out == "No containers to delete (ssbench_NNNNNN[_...]).\n"


def test_what_is_left_is_a_failure_with_examples() -> None:
    store = filled()
    store.refuse("delete_object", "b", status_error(403))
    done = Command(store)
    assert done.status is ExitStatus.FAILED
    assert "Deleted 3 objects and 0 containers" in done.out
    assert "Failed: 3 objects, 3 containers; for example:" in done.err
    assert "/b: the store answered 403" in done.err


def test_stopping_it_says_so() -> None:
    store = filled()
    done = Command(store, stopping=lambda: store.count("delete_object") > 0)
    assert done.status is ExitStatus.INTERRUPTED
    assert "Ended early, 3 containers left: interrupted" in done.err


def test_an_account_that_cannot_be_listed_is_an_error() -> None:
    store = filled()
    store.fail("list_containers", status_error(403))
    with pytest.raises(StorageError, match="403"):
        Command(store)


def test_names_from_the_store_do_not_steer_the_terminal() -> None:
    store = MemoryStore()
    store.add("ssbench_000000_\x1b[2J")
    done = Command(store, policy="*", dry_run=True)
    assert "ssbench_000000_\\x1b[2J" in done.out
