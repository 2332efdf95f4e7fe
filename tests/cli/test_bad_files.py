"""Files that the user names and that are none: each option times each kind of file."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from ssbench.cli.commands import COMMANDS
from ssbench.cli.options import STORE_OPTIONS
from ssbench.cli.worker_options import WORKER
from ssbench.core.option import Option
from tests.cli.shell import Shell

LOG = (
    '192.0.2.1 - - [20/Nov/2026:08:00:00 +0000] "GET /c/o HTTP/1.1" 200 9\n'
    '192.0.2.1 - - [20/Nov/2026:08:00:01 +0000] "GET /c/o HTTP/1.1" 200 9\n'
)
#: Valid values of what commands or options require; of options that exclude each other, one.
VALUES = {
    "scenario": ["-f", "very_small"], "slos": ["--slo", "p99<1s"], "container": ["c"],
    "folder": ["."], "place": ["--container", "c"], "logs": ["log"], "into": ["--container", "c"],
    "a": ["--a", "-u 1"], "b": ["--b", "-u 2"], "otlp": ["--otlp", "http://127.0.0.1:9"],
}  # fmt: skip
SWIFT = ["--storage", "swift", "-A", "http://127.0.0.1:9/v1", "-U", "u", "-K", "k"]
WEBDAV = ["--storage", "webdav", "--url", "http://127.0.0.1:9/d/"]
S3 = ["--storage", "s3", "--s3-endpoint", "http://127.0.0.1:9"]
RUN = ["run-scenario", "-f", "very_small"]
#: Files that no row names: words, variables.
OTHERS = {
    "site file": ([*RUN, "--noop"], "SSBENCH_CONFIG"),
    "ssbench-worker site file": ([], "SSBENCH_CONFIG"),
    "clouds": ([*RUN, "--storage", "swift", "--os-cloud", "c"], "OS_CLIENT_CONFIG_FILE"),
    "secure clouds": ([*RUN, "--storage", "swift", "--os-cloud", "c"], "OS_CLIENT_SECURE_FILE"),
    "AWS configuration": ([*RUN, *S3, "--s3-profile", "p"], "AWS_CONFIG_FILE"),
    "AWS credentials": ([*RUN, *S3, "--s3-profile", "p"], "AWS_SHARED_CREDENTIALS_FILE"),
    "secret": ([*RUN, *S3, "--storage-option", "s3_secret_key_file=BAD"], ""),
    "ssh hosts": ([*RUN, "--noop", "--ssh-workers", "@BAD"], ""),
    "profiler's .env": (["profiler", "-input-dir", "."], ""),
}
#: Without these files, a command goes on.
OPTIONAL = {"secure clouds", "AWS configuration", "AWS credentials", "profiler's .env"}
#: A file of each reader, which decides these; what else is read by it is tried with the others.
OF_READERS = {"a device", "a folder", "a socket", "too large", "not readable", "not UTF-8"}
READERS = {
    "site file", "clouds", "AWS configuration", "secret", "ssh hosts", "profiler's .env",
    "os_cert", "sse_c_key_file", "run-scenario scenario", "run-scenario resume_cleanup",
    "report-scenario stats_files", "compare stats_files", "make-scenario logs", "netrc",
    "make-scenario cosbench", "doctor key_file", "kill-workers key_file", "ssbench-worker key_file",
}  # fmt: skip
#: These kinds of stat files can be opened.
OPEN = {"too large", "not readable", "not UTF-8"}


def sock(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))


def link(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


KINDS: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: None,
    "a FIFO": os.mkfifo,
    "a device": link("/dev/zero"),
    "a folder": Path.mkdir,
    "a socket": sock,
    "too large": huge,
    "not readable": link("/proc/self/mem"),  # also by root
    "not UTF-8": lambda path: path.write_bytes(b"\xff\xfe secret"),
}


def words_of(command: str, row: Option) -> list[str]:
    """A command line with the row's file, BAD."""
    words, groups = command.split(), {row.exclusive}
    for other in COMMANDS[command].rows:
        if other.required and other.name != row.name and other.exclusive not in {*groups} - {""}:
            words += VALUES[other.name]
            groups.add(other.exclusive)
        elif other.name == "noop" and row.name != "resume_cleanup":
            words.append("--noop")
    words += VALUES.get(row.needs, [])
    return [*words, *row.flags[-1:], "BAD", *["other"] * (command == "compare")]


def table() -> dict[str, tuple[list[str], str]]:
    """Words and variable of each case; a new option with a file is a case by itself."""
    found = {
        f"{command} {row.name}": (words_of(command, row), "")
        for command in COMMANDS
        for row in COMMANDS[command].rows
        if row.file == "r" and row not in STORE_OPTIONS
    }
    of_stores = {"netrc": WEBDAV, "sse_c_key_file": [*S3, "--s3-anonymous"]}
    for row in STORE_OPTIONS:
        if row.file == "r":
            store = of_stores.get(row.name, [*SWIFT, "--os-cert", "BAD"])
            found[row.name] = [*RUN, *store, *row.flags, "BAD"], ""
    for row in WORKER:
        for purpose in ([], ["--network-server"]) if row.file == "r" else ():
            case = " ".join(["ssbench-worker", *purpose, row.name])
            found[case] = [*purpose, *row.flags[-1:], "BAD"], ""
    return {**found, **OTHERS}


CASES = [
    (case, kind)
    for case, kind in itertools.product(table(), KINDS)
    if not (kind == "nothing" and case in OPTIONAL)
    and not (kind in OF_READERS and case not in READERS)
    and not (kind == "too large" and case.endswith("logs"))  # they have no limit
]
assert table().keys() >= READERS


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("case", "kind"), CASES)
def test_a_file_that_is_none_is_one_line(
    case: str, kind: str, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, variable = table()[case]
    monkeypatch.chdir(tmp_path)
    Path("log").write_text(LOG)
    KINDS[kind](Path(".env"))
    bad = str(tmp_path / ".env")
    if variable:
        monkeypatch.setenv(variable, bad)
    is_worker = case.startswith("ssbench-worker")
    call = shell.worker if is_worker else shell
    said = call(*(word.replace("BAD", bad) for word in words))
    if case.startswith("doctor key"):
        assert (said.status, "failed   ports        --zmq-key-file" in said.out) == (1, True)
        return
    assert said.out == ""
    message = said.err.partition("ssbench-")[2]
    assert ".env" in message
    hint = "(see ssbench-worker -h)" if is_worker else f"(see ssbench-master {words[0]} -h)"
    assert message.splitlines()[1:] in ([], [hint])
    is_stat_file = case.split()[-1] in ("resume_cleanup", "stats_file", "stats_files")
    assert said.status == (1 if is_stat_file and kind in OPEN else 2)
