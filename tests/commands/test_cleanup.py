from __future__ import annotations

import io
import re
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from ssbench.cli.commands import COMMANDS
from ssbench.commands import cleanup as cleanup
from ssbench.commands.cleanup import Cleaner, delete_containers, delete_orphans
from ssbench.core.errors import ExitStatus
from ssbench.core.model import Result
from ssbench.core.naming import RUN_HEADER
from ssbench.core.operations import CREATE
from ssbench.core.scenario.values import container_name
from ssbench.live.terminal import make_progress
from ssbench.storage.retrying_client import RetryingClient
from tests.cli.shell import Shell, stat_file
from tests.commands.test_run_scenario import run_against
from tests.fakes.hostile_swift import HostileSwift
from tests.fakes.http_server import FakeContainer
from tests.fakes.memory_storage import MemoryStorage, MemoryStore, status_error
from tests.fakes.terminal import FakeTerminal
from tests.report import runs
from tests.runner.test_resume import NAMING, RUN, orphans_by, row, stored


class Command:
    """One call of a command, with its output.

    :param isatty: whether standard input and error are a terminal, where ``answer`` is typed.
    """

    def __init__(
        self,
        run: Callable[[Cleaner], ExitStatus],
        store: MemoryStore,
        answer: str = "",
        *,
        isatty: bool = False,
        storage: MemoryStorage | None = None,
        stopping: Callable[[], bool] = lambda: False,
        concurrency: int = 4,
        dry_run: bool = False,
        yes: bool = False,
        unmarked: bool = False,
    ) -> None:
        out, err = io.StringIO(), FakeTerminal(isatty=isatty)
        client = RetryingClient(storage or MemoryStorage(store), concurrency, stopping=stopping)
        with (
            redirect_stdout(out),
            redirect_stderr(err),
            patch("sys.stdin", FakeTerminal(answer, isatty=isatty)),
        ):
            progress = make_progress("chars", err, {})
            self.status = run(Cleaner(client, [progress], dry_run, yes, unmarked))
        self.out, self.err = out.getvalue(), err.getvalue()


def cleaned(
    store: MemoryStore,
    answer: str = "",
    *,
    base: str = "ssbench",
    policy: str | None = None,
    **options: Any,
) -> Command:
    """cleanup-containers."""  # fmt: skip
    return Command(
        lambda cleaner: delete_containers(cleaner, base, policy), store, answer, **options
    )


def filled(containers: int = 3) -> MemoryStore:
    store = MemoryStore()
    for index in range(containers):
        store.add(container_name("ssbench", index), "a", "b", size=1500, marker=True)
    store.add("ssbench_backup", "precious", marker=True)
    store.add("ssbench_000000_gold", "precious", marker=True)
    return store


def test_cleanup_lists_containers_and_results() -> None:
    store = filled(15)
    rows = [f"  ssbench_{number:06d}  2 objects, 3.0 kB" for number in range(15)]
    dry = cleaned(store, dry_run=True, isatty=True)
    assert dry.out.splitlines()[:16] == [
        "Would delete 15 containers with 30 objects (45.0 kB):", *rows,
    ]  # fmt: skip
    assert dry.out.count("\n") == 19
    assert (dry.status, store.count("delete_object"), len(store.containers)) == (0, 0, 17)
    done = cleaned(store, yes=True)
    assert done.status is ExitStatus.OK
    assert done.err.splitlines()[:12] == [
        "Deleting 15 containers with 30 objects (45.0 kB):", *rows[:10],
        "  ... and 5 more containers, up to ssbench_000014",
    ]  # fmt: skip
    assert re.fullmatch(
        r"Deleted 30 objects and 15 containers in [\d.]+ s"
        r" \([\d,.]+ objects/s, [\d,.]+ containers/s\)\.\n",
        done.out,
    )
    assert list(store.containers) == ["ssbench_backup", "ssbench_000000_gold"]


def test_a_policy_selects_its_own_containers() -> None:
    store = filled()
    assert cleaned(store, policy="gold").status is ExitStatus.OK
    assert "ssbench_000000_gold" not in store.containers
    assert len(store.containers) == 4


WHAT = "with all that is in it, whoever put it there"


@pytest.mark.parametrize("unmarked", [False, True])
def test_the_question_and_a_dry_run_say_what_is_deleted(unmarked: bool) -> None:
    store = filled()
    for index in range(3):
        store.add(container_name("ssbench", index), marker=True)
    mark = "with or without ssbench's mark" if unmarked else "with ssbench's mark"
    rule = f"This is every container ssbench_NNNNNN {mark}, {WHAT}."
    dry = cleaned(store, dry_run=True, unmarked=unmarked)
    assert f"{rule}{'' if unmarked else ' Without a terminal nothing is asked.'}\n" in dry.out
    asked = cleaned(store, "n\n", isatty=True, unmarked=unmarked)
    assert f"{rule}\n" in asked.err.partition("Delete them? [y/N]")[0]


@pytest.mark.parametrize(
    "page",
    [
        "README.rst",
        "docs/tutorial/own-cluster.rst",
        "docs/reference/account.rst",
        "ssbench-master cleanup-containers --help-all",
    ],
)
def test_the_documents_say_the_same_of_what_is_deleted(page: str) -> None:
    if page.endswith(".rst"):
        text = (Path(__file__).parents[2] / page).read_text()
    else:
        text = COMMANDS["cleanup-containers"].description
    said = " ".join(text.split())
    assert "whoever put it there" in said
    assert "carries ssbench's mark" in said


@pytest.mark.parametrize(
    ("answer", "options", "is_asked", "is_deleted"),
    [
        ("y\n", {"isatty": True}, True, True),
        ("Yes", {"isatty": True}, True, True),
        ("\n", {"isatty": True}, True, False),
        ("yesterday\n", {"isatty": True}, True, False),
        ("", {"isatty": True}, True, False),
        ("", {}, False, True),
        ("", {"isatty": True, "yes": True}, False, True),
    ],
)
def test_on_a_terminal_nothing_is_deleted_without_a_yes(
    answer: str, options: dict[str, bool], is_asked: bool, is_deleted: bool
) -> None:
    store = filled()
    done = cleaned(store, answer, **options)
    assert done.status is (ExitStatus.OK if is_deleted else ExitStatus.FAILED)
    assert ("About to delete 3 containers" in done.err) is is_asked
    assert ("Delete them? [y/N]" in done.err) is is_asked
    assert done.err.endswith("Nothing was deleted.\n") is not is_deleted
    assert len(store.containers) == (2 if is_deleted else 5)


def test_remaining_objects_fail_with_examples() -> None:
    store = filled()
    store.refuse("delete_object", "b", status_error(403))
    done = cleaned(store)
    assert done.status is ExitStatus.FAILED
    assert "Deleted 3 objects and 0 containers" in done.out
    assert "Failed: 3 objects, 3 containers; for example:" in done.err
    assert "/b: the store answered 403" in done.err


def test_an_interrupted_cleanup_reports_it() -> None:
    store = filled()
    done = cleaned(store, stopping=lambda: store.count("delete_object") > 0)
    assert done.status is ExitStatus.INTERRUPTED
    assert "Ended early, 3 containers left: interrupted" in done.err


def test_names_from_the_store_are_escaped() -> None:
    store = MemoryStore()
    store.add("ssbench_000000_\x1b[2J")
    store.add("ssbench_000001_\x1b[2J", marker=True)
    done = cleaned(store, policy="*", dry_run=True)
    assert "\n  ssbench_000001_\\x1b[2J  0 objects, 0 B\n" in done.out
    assert "Left alone: ssbench_000000_\\x1b[2J: " in done.out
    assert "\x1b" not in done.out


def test_containers_not_deleted_are_listed_with_the_reason() -> None:
    store = filled()
    for number in range(9):
        store.add(f"ssbench_{number:06d}_backup", "precious")
    done = cleaned(store, policy="*", isatty=True, answer="y\n")
    assert done.status is ExitStatus.OK
    told = [line for line in done.err.splitlines() if line.startswith("Left alone: ")]
    assert told == [
        "Left alone: ssbench_000000_backup, ssbench_000001_backup, ssbench_000002_backup,"
        " ssbench_000003_backup, ssbench_000004_backup and 4 more: no policy of this cluster"
        " follows the number, and there is no mark of ssbench",
        "Left alone: ssbench_backup: not named by the base and a number of six digits",
    ]
    assert done.err.index("Left alone") < done.err.index("Delete them?")
    assert len(store.containers) == 10


def test_reasons_are_listed_if_nothing_is_deleted() -> None:
    store = MemoryStore()
    store.add("ssbench_000000_old")
    done = cleaned(store, policy="*")
    assert done.out == (
        "No containers to delete (ssbench_NNNNNN[_POLICY]).\n"
        "Left alone: ssbench_000000_old: no policy of this cluster follows the number, and there"
        " is no mark of ssbench\n"
    )


def test_incomplete_counts_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "COUNTED", 1000)
    store = filled(1)
    store.add("ssbench_000000", *(f"{number:06d}" for number in range(2500)), size=1000)
    done = cleaned(store, dry_run=True)
    assert done.out.splitlines()[:3] == [
        "Would delete 1 container with at least 1,000 objects (at least 1.0 MB):",
        "  ssbench_000000  at least 1,000 objects, 1.0 MB (the account reports 2,502, 2.5 MB)",
        "Large containers were counted only in part. The account reports 2,502 objects (2.5 MB)"
        " in total; its counters lag behind.",
    ]


# Orphaned objects -------------------------------------------------------------------------


def orphaned(
    storage: MemoryStorage,
    *rows: Result,
    answer: str = "",
    use_existing: bool = False,
    **options: Any,
) -> Command:
    """--resume-cleanup of a run with these results."""
    found = orphans_by(*rows)
    return Command(
        lambda cleaner: delete_orphans(cleaner, found, use_existing=use_existing),
        storage.store, answer, storage=storage, **options,
    )  # fmt: skip


def without_time(line: str) -> str:
    return re.sub(r" in [\d.]+ s \([\d,.]+ objects/s\)", "", line)


def test_orphaned_objects_are_listed_by_container_and_deleted() -> None:
    storage = stored((0, 10), (0, 13), (0, 11))
    done = orphaned(storage, row(CREATE, 10), row(CREATE, 12))
    assert done.status is ExitStatus.OK
    assert done.err.splitlines()[:4] == [
        f"Deleting what is left of 4 objects of run {RUN}, in 3 containers (1 of them not in"
        " listings):",
        "  b_000001  2 objects",
        "  b_000002  1 object",
        f"Objects without the run's header ({RUN_HEADER}) stay.",
    ]
    assert without_time(done.out) == f"Deleted 3 objects of run {RUN}; 1 was gone before.\n"
    assert not any(each.objects for each in storage.store.containers.values())
    again = orphaned(storage, row(CREATE, 10))
    assert (again.status, again.out) == (ExitStatus.OK, f"Nothing was left of run {RUN}.\n")
    assert again.err.startswith(f"Deleting what is left of 1 object of run {RUN}, in 3 containers")


def test_a_dry_run_names_the_orphaned_objects_that_exist() -> None:
    storage = stored((0, 10))
    storage.store.add("b_000000", NAMING.object(0, 12))
    done = orphaned(storage, row(CREATE, 11), dry_run=True)
    assert done.status is ExitStatus.OK
    assert done.out.splitlines() == [
        f"Would delete 1 object of run {RUN}, in 3 containers (1 of them not in listings):",
        "  b_000000  1 object",
        "  b_000001  1 object",
        f"Left alone: 1 object named as the run's, without its header ({RUN_HEADER}): uploaded by"
        " others, or by a release without it",
    ]
    assert storage.store.count("delete_object") == 0


@pytest.mark.parametrize("options", [{}, {"dry_run": True}])
def test_where_nothing_is_left_of_a_run_it_is_said(options: dict[str, bool]) -> None:
    nothing = f"Nothing is left of run {RUN}."
    for results in ((), (row(CREATE, 12),) if options else ()):
        done = orphaned(stored(), *results, **options)
        assert (done.status, done.out) == (ExitStatus.OK, f"{nothing}\n")
    done = orphaned(MemoryStorage(), **options)
    assert done.status is ExitStatus.OK
    assert done.out == (
        f"{nothing} (None of its containers, such as b_000000, is in this account.)\n"
    )


@pytest.mark.parametrize("dry_run", [False, True])
def test_containers_without_a_mark_are_left_alone_and_the_status_says_so(dry_run: bool) -> None:
    told = "Left alone: b_000001: no mark of ssbench"
    storage = stored((0, 10), (0, 11))
    storage.store.containers["b_000001"].marker = False
    done = orphaned(storage, dry_run=dry_run)
    assert done.status is ExitStatus.FAILED
    assert told in (done.out if dry_run else done.err)
    assert "b_000002  1 object\n" in done.out + done.err
    del storage.store.containers["b_000002"]
    done = orphaned(storage, dry_run=dry_run)
    assert done.status is ExitStatus.FAILED
    assert f"Nothing of run {RUN} is in containers with ssbench's mark.\n{told}" in done.out
    done = orphaned(storage, use_existing=True, dry_run=dry_run)
    assert done.status is ExitStatus.OK
    assert "Left alone" not in done.out + done.err


@pytest.mark.parametrize(("answer", "is_kept"), [("no\n", True), ("y\n", False)])
def test_orphaned_objects_are_deleted_only_on_confirmation(answer: str, is_kept: bool) -> None:
    storage = stored((0, 10))
    done = orphaned(storage, answer=answer, isatty=True)
    assert done.err.startswith(f"About to delete 1 object of run {RUN}")
    assert done.status is (ExitStatus.FAILED if is_kept else ExitStatus.OK)
    assert bool(storage.store.containers["b_000001"].objects) is is_kept
    assert ("Nothing was deleted." in done.err) is is_kept


@pytest.mark.parametrize("after", ["list_objects", "delete_object"])
def test_an_interrupted_search_or_deletion_of_orphans_says_so(after: str) -> None:
    storage = stored(*((0, number) for number in range(10, 40)))
    done = orphaned(storage, stopping=lambda: storage.store.count(after) > 0, concurrency=1)
    assert done.status is ExitStatus.INTERRUPTED
    if after == "delete_object":
        assert re.search(r"\nEnded early, \d+ objects left: interrupted\n", done.err)
    else:
        assert (done.out, done.err) == ("", "")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("run-scenario --noop", "leave out --noop and --embedded-swift"),
        ("run-scenario --embedded-swift", "leave out --noop and --embedded-swift"),
        ("cleanup-containers -b other", "takes the containers from the stat file: leave out -b"),
        ("cleanup-containers -p gold", "takes the containers from the stat file: leave out -b"),
        ("cleanup-containers --storage noop", "its run used another store: give --storage swift"),
    ],
)
def test_the_stat_file_says_where_orphaned_objects_are(words: str, says: str, shell: Shell) -> None:
    path = stat_file(shell.results, [runs.header(run_id=RUN), *runs.normal()[1:]])
    said = shell(*words.split(), "--resume-cleanup", path)
    assert said.status == 2
    assert says in said.err


# Options ----------------------------------------------------------------------------------


def login(swift: HostileSwift) -> list[str]:
    return ["-A", swift.auth_url, "-U", "a:b", "-K", "secret"]


def test_an_empty_policy_is_none(shell: Shell) -> None:
    """Scripts give it when their variable is empty."""
    with HostileSwift({}) as swift:
        for name in ("ssbench_000000", "ssbench_000000_gold"):
            swift.containers[name] = FakeContainer("gold", {})
        assert shell("cleanup-containers", "-p", "", "--yes", *login(swift)).status == 0
        assert len(swift.containers) == 2, "they have no mark"
        words = ["cleanup-containers", "-p", "", "--unmarked"]
        said = shell(*words, *login(swift))
        assert said.status == 2
        assert "--unmarked deletes whatever has the name: without a terminal" in said.err
        assert shell(*words, "--dry-run", *login(swift)).out.startswith("Would delete 1 container")
        assert len(swift.containers) == 2
        assert shell(*words, "--yes", *login(swift)).status == 0
        assert list(swift.containers) == ["ssbench_000000_gold"]


def test_only_swift_may_have_containers_without_a_mark(shell: Shell) -> None:
    said = shell("cleanup-containers", "--unmarked", "--storage", "noop")
    assert said.status == 2
    assert (
        "--unmarked is for containers of ssbench 0.3.9, which the store noop can't have" in said.err
    )


def test_unmarked_containers_are_searched_on_request(shell: Shell) -> None:
    with HostileSwift({}) as swift:
        words = ["--keep-objects", "-q", "-R"]
        assert run_against(swift, shell, *words, crud_profile=[1, 0, 0, 0]).status == 0
        for container in swift.containers.values():
            container.headers.clear()
        words = ["--resume-cleanup", str(shell.results), *login(swift)]
        said = shell("cleanup-containers", *words)
        assert said.status == 1
        assert "--use-existing looks there as well" in said.out
        said = shell("cleanup-containers", "--dry-run", "--use-existing", *words)
        assert said.status == 0
        assert "Would delete 50 objects" in said.out
        assert shell("run-scenario", "--use-existing", *words).status == 0
        assert sum(len(container.objects) for container in swift.containers.values()) == 5
        said = shell("cleanup-containers", "--use-existing", *login(swift))
    assert said.status == 2
    assert "--use-existing does nothing without --resume-cleanup" in said.err


def test_no_note_on_measurements_is_printed_where_none_are_made(shell: Shell) -> None:
    store = ["--storage", "file", "--path", shell.folder]
    for words, status in (
        (["cleanup-containers"], 0),
        (["make-scenario", "--from-container", "c"], 1),
    ):
        said = shell(*words, *store)
        assert said.status == status
        assert "data that the kernel" not in said.err
