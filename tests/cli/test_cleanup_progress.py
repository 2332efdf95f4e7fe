"""What commands that delete have around them."""

from __future__ import annotations

import io
import signal
from typing import Any

import pytest

from ssbench.cli.cleanup_options import cleanup_options
from ssbench.cli.cleanup_progress import CleanupContext, cleanup_context, report_failures, status_of
from ssbench.cli.options import master_parser
from ssbench.cli.progress import make_progress
from ssbench.core.errors import AuthError, ExitStatus
from ssbench.core.settings import StorageSettings
from ssbench.runner.deletions import CleanupResult
from tests.fakes.auth_v1 import AuthV1
from tests.fakes.memory_storage import MemoryStorage, MemoryStore


def context(answer: str, *, yes: bool, isatty: bool) -> CleanupContext:
    err = io.StringIO()
    return CleanupContext(
        MemoryStorage(MemoryStore()), make_progress("none", err), 4, dry_run=False, yes=yes,
        isatty=isatty, out=io.StringIO(), err=err, stdin=io.StringIO(answer),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "refused"),
    [("y\n", False), (" YES \n", False), ("n\n", True), ("\n", True), ("", True), ("ye\n", True)],
)
def test_who_can_be_asked_is_asked(answer: str, refused: bool) -> None:
    here = context(answer, yes=False, isatty=True)
    assert here.verb == "About to delete"
    assert here.declined() is refused
    said = here.err.getvalue()  # type: ignore[attr-defined]
    assert said == "Delete them? [y/N] " + ("Nothing was deleted.\n" if refused else "")


@pytest.mark.parametrize(("yes", "isatty"), [(True, True), (True, False), (False, False)])
def test_who_cannot_be_asked_or_said_yes_is_not(yes: bool, isatty: bool) -> None:
    here = context("n\n", yes=yes, isatty=isatty)
    assert here.verb == "Deleting"
    assert not here.declined()
    assert here.err.getvalue() == ""  # type: ignore[attr-defined]


def options(auth: AuthV1, key: str) -> Any:
    line = ["cleanup-containers", "-A", auth.auth_url, "-U", auth.user, "-K", key, "-c", "3"]
    return cleanup_options(master_parser().parse_args([*line, "--dry-run"]), {})


def test_the_store_is_logged_in_to_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[StorageSettings] = []

    class Storage(MemoryStorage):
        def __init__(self, settings: StorageSettings) -> None:
            super().__init__(MemoryStore())
            self.settings = settings

        def close(self) -> None:
            closed.append(self.settings)

    monkeypatch.setattr("ssbench.cli.cleanup_progress.open_admin", Storage)
    with AuthV1() as auth:
        with cleanup_context(options(auth, "testing")) as here:
            assert (here.concurrency, here.dry_run, here.yes) == (3, True, False)
            assert not here.stopping()
            assert here.renew is not None
            assert closed == []
        assert [settings.store["urls"] for settings in closed] == [(auth.storage_url,)]


def test_ctrl_c_is_heard_between_two_requests() -> None:
    with AuthV1() as auth, cleanup_context(options(auth, "testing")) as here:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert here.stopping()


def test_a_login_that_is_refused_is_told_and_not_shown() -> None:
    with (
        AuthV1() as auth,
        pytest.raises(AuthError) as caught,
        cleanup_context(options(auth, "s3cret")),
    ):
        pass
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("result", "status"),
    [
        (CleanupResult(objects=3), ExitStatus.OK),
        (CleanupResult(failed_objects=1), ExitStatus.FAILED),
        (CleanupResult(left=1, abort_reason="why"), ExitStatus.FAILED),
        (CleanupResult(left=1, interrupted=True), ExitStatus.INTERRUPTED),
    ],
)
def test_a_status_says_whether_anything_is_left(result: CleanupResult, status: ExitStatus) -> None:
    assert status_of(result) is status


def test_failures_are_told_with_examples_and_what_is_left() -> None:
    err = io.StringIO()
    report_failures(CleanupResult(objects=3), "container", err)
    assert err.getvalue() == ""
    result = CleanupResult(
        failed_objects=2,
        failed_containers=1,
        left=3,
        abort_reason="too\x1b many",
        examples=["a", "b"],
    )
    report_failures(result, "container", err)
    assert err.getvalue().splitlines() == [
        "Failed: 2 objects, 1 container; for example:",
        "  a",
        "  b",
        "Ended early, 3 containers left: too\\x1b many",
    ]
    err = io.StringIO()
    report_failures(CleanupResult(failed_objects=1, left=1, interrupted=True), "object", err)
    assert err.getvalue().splitlines() == [
        "Failed: 1 object; for example:", "Ended early, 1 object left: interrupted",
    ]  # fmt: skip
