"""``ssbench-master mark``: from the command, or the page, to stat file, report and live figures."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ssbench.core.errors import ExitStatus, MessageError
from ssbench.core.records import EventRecord
from ssbench.live import control
from ssbench.runner import stop as stop_module
from ssbench.runner.stop import MARK_LENGTH, MOST_MARKS, Stop
from ssbench.statfile import read
from tests.cli.shell import Shell

pytestmark = pytest.mark.usefixtures("forked_workers")


def taking(stop: Stop, found: list[EventRecord]) -> Callable[[], None]:
    """What a master does until it is called."""
    over = threading.Event()

    def take() -> None:
        while not over.wait(0.001):
            found.extend(stop.marks())

    thread = threading.Thread(target=take)
    thread.start()

    def end() -> None:
        over.set()
        thread.join()

    return end


def test_a_mark_is_recorded_once_in_one_bounded_printable_line() -> None:
    stop, found = Stop(), list[EventRecord]()
    end = taking(stop, found)
    assert stop.mark("  node 3\n\x1b down ", "al\x07ice") == ""
    assert stop.mark("x" * MARK_LENGTH, "page") == ""
    assert stop.mark("x" * 5000, "page") == "the text has 5,000 characters; at most 200"
    assert stop.mark(" \n", "page") == "a mark needs a text"
    end()
    assert [(each.text, each.who) for each in found] == [
        ("node 3\\n\\x1b down", "al\\x07ice"),
        ("x" * MARK_LENGTH, "page"),
    ]


def test_what_no_master_takes_is_no_mark_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_module, "_TAKEN_S", 0.01)
    stop = Stop()
    assert stop.mark("early", "page") == "the run records nothing now"
    assert list(stop.marks()) == []


def test_a_run_has_a_bounded_number_of_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_module, "MOST_MARKS", 1)
    stop, found = Stop(), list[EventRecord]()
    end = taking(stop, found)
    assert stop.mark("first", "page") == ""
    assert stop.mark("second", "page") == "the run has 1 marks already"
    end()
    assert MOST_MARKS == 1000


def marked_when_it_runs(texts: list[str], said: list[str]) -> threading.Thread:
    """Marks the run of this process as soon as it records."""

    def mark() -> None:
        for text in texts:
            fault = "not yet"
            while fault:
                try:
                    fault = control.mark(os.getpid(), text)
                except OSError:  # the run has not begun
                    over.wait(0.01)
            said.append(text)

    over = threading.Event()
    thread = threading.Thread(target=mark, daemon=True)
    thread.start()
    return thread


def test_marks_are_in_stat_file_report_and_live_lines(shell: Shell, tmp_path: Path) -> None:
    said: list[str] = []
    thread = marked_when_it_runs(["node 3 down", "<b>up</b>"], said)
    live = tmp_path / "live"
    shown = shell.run("-r", "3", "--html", tmp_path / "a.html", "--live-json", live)
    thread.join(30)
    assert shown.status == ExitStatus.OK
    assert said == ["node 3 down", "<b>up</b>"]
    assert "Mark by " in shown.err
    assert "\nMARKS\n" in shown.out
    with read(shell.results) as records:
        events = [each for each in records if isinstance(each, EventRecord)]
    assert [each.text for each in events] == said
    last = json.loads(live.read_text().splitlines()[-1])
    assert [each["text"] for each in last["marks"]] == said
    page = (tmp_path / "a.html").read_text()
    assert "node 3 down" in page
    assert "<b>up</b>" not in page
    report = json.loads(shell("report-scenario", shell.results, "--json").out)
    assert [(each["text"], each["who"]) for each in report["marks"]] == [
        (each.text, each.who) for each in events
    ]
    assert abs(report["marks"][0]["at_s"]) < 60  # below 0: before the load


def test_without_a_run_it_is_a_usage_error(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "masters", lambda: iter(()))
    assert shell("mark", "x") == (
        2, "", "ssbench-master: no run of this user goes on on this host\n"
    )  # fmt: skip


def test_of_several_runs_one_must_be_named(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    running = [control.Master(7, "ab", "small"), control.Master(8, "cd", "big\x1b")]
    marked: list[tuple[int, str]] = []

    def mark(pid: int, text: str) -> str:
        marked.append((pid, text))
        return "" if text == "x" else "a mark needs a text"

    monkeypatch.setattr(control, "masters", lambda: iter(running))
    monkeypatch.setattr(control, "mark", mark)
    said = shell("mark", "x")
    assert (said.status, said.out) == (2, "")
    assert said.err.endswith("give one with --run: 7 (small), 8 (big\\x1b)\n")
    assert "there are: 7 (small)" in shell("mark", "x", "--run", "9").err
    for name in ("8", "cd", "big\x1b"):
        assert shell("mark", "x", "--run", name).status == ExitStatus.OK
    assert marked == [(8, "x")] * 3
    assert shell("mark", " ", "--run", "7") == (
        1, "", "ssbench-master: no mark was made: a mark needs a text\n"
    )  # fmt: skip


@contextmanager
def controlled() -> Iterator[list[str]]:
    """A master; gives the texts of the marks that it takes."""
    marks: list[str] = []

    def take(text: str, _who: str) -> str:
        marks.append(text)
        return ""

    with control.controlled(lambda: ("ab", "small"), take):
        yield marks


def answer_to(sent: bytes | None) -> bytes:
    """Of the master of this process; nothing is sent for None."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(30)
        client.connect(f"\0ssbench-{os.getuid()}-{os.getpid()}")
        with suppress(ConnectionError):  # it may be refused before all was sent
            if sent is not None:
                client.sendall(sent)
                client.shutdown(socket.SHUT_WR)
            return client.recv(100)
    return b""


def test_what_is_no_request_has_no_answer_and_does_no_harm() -> None:
    with controlled() as marks:
        for sent in (b"", b"{", b'{"mark": 7}', b"[]", b"9" * 100_000, b"\xff"):
            assert answer_to(sent) == b""
            assert control.Master(os.getpid(), "ab", "small") in control.masters()
        assert control.mark(os.getpid(), "ok") == ""
    assert marks == ["ok"]
    assert os.getpid() not in [each.pid for each in control.masters()]


def test_a_master_answers_no_other_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_user_of", lambda _connection: os.getuid() + 1)
    with controlled() as marks:
        assert answer_to(b'{"mark": "x"}') == b""
    assert marks == []


def test_what_another_user_answers_in_a_master_s_name_is_not_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(control, "_user_of", lambda _connection: os.getuid() + 1)
    heard: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0ssbench-{os.getuid()}-{os.getpid()}")
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                heard.append(connection.recv(100))
                connection.sendall(b'{"run_id": "ab", "scenario": "small"}')

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        with pytest.raises(MessageError, match="another user"):
            control.mark(os.getpid(), "secret")
        thread.join(30)
    assert heard == [b""]


def test_a_master_whose_name_another_user_has_taken_can_be_marked() -> None:
    with socket.socket(socket.AF_UNIX) as planted:
        planted.bind(f"\0ssbench-{os.getuid()}-{os.getpid()}")  # nobody answers there
        with controlled() as marks:
            assert control.Master(os.getpid(), "ab", "small") in control.masters()
            assert control.mark(os.getpid(), "ok") == ""
    assert marks == ["ok"]


def test_a_request_has_a_limited_length_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with controlled() as marks:
        for sent in (b'{"mark": "x"}'.ljust(16_384), b'{"mark": "y"}'.ljust(16_385)):
            answer_to(sent)
        assert marks == ["x"]
        assert control._TIMEOUT_S == 5
    monkeypatch.setattr(control, "_TIMEOUT_S", 0.1)
    with controlled():
        assert answer_to(None) == b"", "it is closed"
