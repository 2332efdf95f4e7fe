"""ssbench-master: what a user's mistakes come to. One line each, the right status, no traceback."""

from __future__ import annotations

import errno
import io
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any

import pytest

from ssbench.cli.master import main
from ssbench.runner.config import CANNED
from ssbench.runner.results import read_stats
from ssbench.transport.key import CurveKey
from tests.cli.shell import Shell, free_ports, scenario

ROOT = Path(__file__).resolve().parents[2]


# The command line -------------------------------------------------------------------------


def test_the_canned_scenarios_are_listed_with_a_line_each(shell: Shell) -> None:
    said = shell("list-scenarios")
    assert said.status == 0
    assert [line.split()[0] for line in said.out.splitlines()] == list(CANNED)
    assert said.err == ""


# Scenarios --------------------------------------------------------------------------------


def test_a_faulty_scenario_has_status_2_and_names_the_place(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "own.scenario"
    path.write_text('{"nmae": "x"}')
    said = shell("run-scenario", "-f", path, "--noop")
    assert (said.status, said.out) == (2, "")
    assert f"{path}: nmae: unknown key" in said.err
    assert not list(tmp_path.glob("**/*.stat.gz"))


# The store, the ports, the files ----------------------------------------------------------


def test_a_port_in_use(shell: Shell) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        said = shell.run("--zmq-work-port", port)
    assert said.status == 1
    assert f"127.0.0.1:{port}: can't listen there: Address already in use" in said.err


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize(("cores", "workers"), [(1, 1), (4, 3), (64, 4)])
def test_a_run_starts_workers_if_none_is_there(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, cores: int, workers: int
) -> None:
    """A core is left to the master, and no worker is without a user."""
    monkeypatch.setattr("ssbench.master.master.FIRST_JOINED_NS", 100_000_000)
    monkeypatch.setattr("ssbench.runner.config.usable_cores", lambda: cores)
    said = shell.run(workers=0, user_count=4)
    assert said.status == 0
    assert f"INFO:No worker is there: starting {workers} on this host" in said.err
    assert read_stats(str(shell.results)).worker_count == workers


@pytest.mark.usefixtures("forked_workers")
def test_many_workers_of_a_run_do_not_fill_the_screen(shell: Shell) -> None:
    said = shell.run(workers=6, user_count=6)
    assert said.status == 0
    assert said.err.count("Spawning") == 1
    assert "INFO:Spawning 6 local ssbench-worker processes (logging to " in said.err


@pytest.mark.parametrize(
    ("variables", "words", "says"),
    [
        ({"METRICS_PORT": "tcp://10.0.0.1:13579"}, (), "SSBENCH_METRICS_PORT: 'tcp://10.0.0.1"),
        ({"EXPECT_WORKERS": "1"}, ("--workers", 2), "SSBENCH_EXPECT_WORKERS 1 is fewer than"),
        ({"WARMUP": "10"}, ("-r", 5), "SSBENCH_WARMUP, -r (run_seconds): warm-up and cool-down"),
        (
            {"WARMUP": "10", "RUN_SECONDS": "5"}, (),
            "together less than the run (-r is set by SSBENCH_RUN_SECONDS)",
        ),
        ({}, ("--warmup", 10, "-r", 5), "ssbench-master: --warmup, -r (run_seconds): warm-up"),
        ({"HTML": "/no/such/x"}, (), "SSBENCH_HTML /no/such/x: can't be written"),
        ({"STORAGE": "nosuch"}, (), "SSBENCH_STORAGE: store "),
        ({"ZMQ_KEY_FILE": "/no/such"}, (), "SSBENCH_ZMQ_KEY_FILE /no/such: can't be read"),
        ({"STORAGE": "swift", "AUTH": "foo"}, ("-U", "a:b", "-K", "k"), "SSBENCH_AUTH: the auth"),
        ({"STORAGE": "webdav"}, ("--s3-bucket", "b"), "(--storage is set by SSBENCH_STORAGE)"),
    ],
)  # fmt: skip
def test_an_error_names_the_place_where_the_value_is_from(
    shell: Shell,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    words: tuple[object, ...],
    says: str,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"SSBENCH_{name}", value)
    noop = () if "STORAGE" in variables else ("--noop",)
    said = shell("run-scenario", "-f", scenario(shell.folder), *noop, *words)
    assert said.status == 2
    assert says in said.err


def test_an_error_names_the_key_of_the_site(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    path = shell.folder / "c.toml"
    path.write_text("[run-scenario]\ncooldown = '1h'\n")
    monkeypatch.setenv("SSBENCH_CONFIG", str(path))
    said = shell.run("-r", 5)
    assert said.status == 2
    assert f"ssbench-master: {path}: [run-scenario] cooldown, -r (run_seconds): warm-up" in said.err


def test_make_key(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "key"
    said = shell("make-key", path)
    assert said.status == 0
    assert str(path) in said.out
    key = CurveKey.load(str(path))
    assert key.server_secret not in said.out + said.err
    said = shell("make-key", path)
    assert said.status == 2
    assert "never overwritten" in said.err
    said = shell("make-key", tmp_path / "none" / "key")
    assert (said.status, "can't be written: No such file" in said.err) == (2, True)


def test_kill_workers_without_workers(shell: Shell) -> None:
    said = shell("kill-workers", "--worker-wait", 0.1, *free_ports())
    assert (said.status, said.out) == (1, "")
    assert "No workers were found." in said.err


def test_kill_workers_says_that_it_was_interrupted(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: Any) -> tuple[list[str], list[str]]:
        *_, stop = given
        stop.listen(lambda reason: None)
        os.kill(os.getpid(), signal.SIGINT)
        return [], ["a\x1b"]

    monkeypatch.setattr("ssbench.runner.session.kill_workers", interrupted)
    said = "Still running: worker a\\x1b\nssbench-master: interrupted by SIGINT (exit status 5)\n"
    assert shell("kill-workers") == (5, "", said)


# A whole run, and its report --------------------------------------------------------------


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stat file of a no-op run by the real command."""
    path = tmp_path_factory.mktemp("run") / "x.stat.gz"
    command = ["run-scenario", "-f", "very_small", "--noop", "-o", "40", "--workers", "1"]
    ended = command_line(*command, *free_ports(), "-s", path, "-R")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == ""  # -R: no report
    assert str(path) in ended.stderr
    return path


def command_line(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ssbench.cli.master", *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "option",
    ["-f", "-r", "--time-series", "--host-stats", "--html", "--junit", "--jsonl", "--parquet"],
)
def test_a_report_does_not_overwrite_a_stat_file(
    option: str, shell: Shell, done: Path, tmp_path: Path
) -> None:
    own, link, other, report = (tmp_path / name for name in ("own.gz", "link", "other.gz", "old"))
    for path in (own, other):
        path.write_bytes(done.read_bytes())
    link.symlink_to(own)
    why_not = {
        own: "this is the file of -s itself",
        link: "this is the file of -s itself",
        other: "is a stat file and is not overwritten",
    }
    for path, why in why_not.items():
        said = shell("report-scenario", "-s", own, option, path)
        assert said.status == 2
        assert f"{path}: {why}" in said.err
    assert own.read_bytes() == other.read_bytes() == done.read_bytes()
    report.write_text("an older report")
    assert shell("report-scenario", "-s", own, option, report).status == 0
    assert b"an older report" not in report.read_bytes()


def test_a_profile_of_the_report(shell: Shell, done: Path) -> None:
    said = shell("report-scenario", "-s", done, "--profile")
    assert said.status == 0
    assert "Profile of the report: " in said.err
    path = said.err.split("Profile of the report: ")[1].split()[0]
    lines = Path(path).read_text().splitlines()
    assert all(line.startswith("report;") for line in lines)
    assert os.stat(path).st_mode & 0o077 == 0


def test_a_profile_file_of_a_run_without_a_profile(
    shell: Shell, done: Path, tmp_path: Path
) -> None:
    said = shell("report-scenario", "-s", done, "--profile-file", tmp_path / "stacks")
    assert (said.status, "has no profile: run with --profile" in said.err) == (2, True)
    assert not (tmp_path / "stacks").exists()


def test_the_gz_suffix_is_optional(shell: Shell, tmp_path: Path) -> None:
    said = shell.run("-s", tmp_path / "a.stat")
    assert said.status == 0
    assert [path.name for path in tmp_path.glob("a*")] == ["a.stat.gz"]
    assert str(tmp_path / "a.stat.gz") in said.err
    assert "is there already" in shell.run("-s", tmp_path / "a.stat").err
    report = shell("report-scenario", "-s", tmp_path / "a.stat", "--csv")
    assert report == shell("report-scenario", "-s", tmp_path / "a.stat.gz", "--csv")
    over = shell("report-scenario", "-s", tmp_path / "a.stat", "-f", tmp_path / "a.stat.gz")
    assert (over.status, "is a stat file and is not overwritten" in over.err) == (2, True)


def test_a_truncated_file_is_reported_as_far_as_it_goes(
    shell: Shell, done: Path, tmp_path: Path
) -> None:
    whole = done.read_bytes()
    for length in (len(whole) - 1, len(whole) - 30, len(whole) // 2):
        path = tmp_path / f"{length}.stat.gz"
        path.write_bytes(whole[:length])
        said = shell("report-scenario", "-s", path)
        assert said.status == 1
        assert said.err.splitlines()[-1] == (
            f"ssbench-master: {path}: some results of the run are missing (exit status 1)"
        )
        assert "TOTAL" in said.out


def with_output(
    output: IO[str] | int, *words: object, program: str = "master", unbuffered: str = ""
) -> tuple[int, str]:
    """Status and standard error of a command whose standard output is this."""
    ended = subprocess.run(
        [sys.executable, "-m", f"ssbench.cli.{program}", *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered},
        stdout=output, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
    )  # fmt: skip
    return ended.returncode, ended.stderr


@pytest.fixture
def closed_pipe() -> Iterator[int]:
    """A pipe whose reader has ended."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    yield write_end
    os.close(write_end)


@pytest.fixture
def full() -> Iterator[IO[str]]:
    with open("/dev/full", "w") as stream:
        yield stream


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("master", ["list-scenarios"]),
        ("master", ["report-scenario", "-s"]),
        ("master", ["--version"]),
        ("master", ["run-scenario", "--help-all"]),
        ("worker", ["--show-config"]),
    ],
)
def test_a_reader_that_closes_the_pipe_is_no_error(
    done: Path, closed_pipe: int, program: str, words: list[str]
) -> None:
    more = [str(done)] if words[-1] == "-s" else []
    assert with_output(closed_pipe, *words, *more, program=program) == (0, "")


def test_standard_output_may_be_any_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(["list-scenarios"]) == 0
    assert stream.getvalue().startswith(next(iter(CANNED)))


CANNOT_WRITE = "cannot write to standard output: No space left on device\n"


@pytest.mark.parametrize(("program", "unbuffered"), [("master", ""), ("worker", "1")])
def test_a_full_disk_for_a_help_is_one_line(program: str, unbuffered: str, full: IO[str]) -> None:
    ended = with_output(full, "-h", program=program, unbuffered=unbuffered)
    assert ended == (1, f"ssbench-{program}: {CANNOT_WRITE}")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_standard_output_does_not_take_goes_to_standard_error(
    unbuffered: str, full: IO[str], tmp_path: Path
) -> None:
    ended = with_output(full, "make-key", tmp_path / "key", unbuffered=unbuffered)
    said = f"Wrote {tmp_path}/key; copy it to all worker hosts over a secure channel\n"
    assert ended == (1, f"{said}ssbench-master: {CANNOT_WRITE}")
    assert CurveKey.load(str(tmp_path / "key"))
    status, err = with_output(full, "--show-config", program="worker", unbuffered=unbuffered)
    assert (status, err.splitlines()[-1]) == (1, f"ssbench-worker: {CANNOT_WRITE.rstrip()}")


def test_running_out_of_descriptors_is_one_line(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def used_up(path: str, warn: object, **_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files", "/dev/null")

    monkeypatch.setattr("ssbench.commands.report.read_stats", used_up)
    said = shell("report-scenario", "-s", "x")
    assert said == (
        1,
        "",
        "ssbench-master: system error: Too many open files: raise the limit of open files (ulimit"
        " -n), or use fewer users or workers here\n",
    )


@pytest.mark.parametrize(
    "words",
    [
        ["run-scenario", "-f", "very_small", "--noop", "--workers", "1"],
        ["find-limit", "-f", "very_small", "--noop", "--workers", "1", "--slo", "p99 < 1s"],
        ["report-scenario", "-s", "a.stat.gz"],
        ["compare", "a.stat.gz", "b.stat.gz"],
    ],
    ids=lambda words: words[0],
)
def test_a_run_without_numpy_is_refused_with_install_instructions(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    seen = shell(*words)
    assert seen.status == 1
    assert seen.err.endswith(f"to install it: {sys.executable} -m pip install numpy\n")
    assert len(seen.err.splitlines()) == 1


def test_without_numpy_other_commands_work(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert shell("list-scenarios").status == 0
