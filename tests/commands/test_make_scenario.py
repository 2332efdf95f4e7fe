"""make-scenario: what is wrong with its output is told before a container is listed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ssbench.core.scenario.scenario import Scenario
from tests.cli.shell import Shell


def test_an_output_that_is_there_is_a_usage_error(shell: Shell) -> None:
    (shell.folder / "there").touch()
    words = ["--from-container", "c", "--output", shell.folder / "there"]
    said = shell("make-scenario", *words, "--storage", "file", "--path", shell.folder)
    assert said.status == 2
    assert said.err.startswith("ssbench-master: --output ")
    assert said.err.endswith("it exists; name a new file\n")


@pytest.fixture
def store(tmp_path: Path) -> list[str]:
    """Options of a store with three containers, of which one is empty."""
    for name, sizes in (("c", (5, 5, 900)), ("d", (5,)), ("empty", ())):
        (tmp_path / name).mkdir()
        for number, size in enumerate(sizes):
            (tmp_path / name / str(number)).write_bytes(b"x" * size)
    return ["--storage", "file", "--path", str(tmp_path)]


def test_a_scenario_of_containers_has_their_sizes(store: list[str], shell: Shell) -> None:
    words = ["--from-container", "c", "--from-container", "d", *store]
    said = shell("make-scenario", *words)
    made = json.loads(said.out)
    assert made["name"] == "Objects like those of c, d"
    assert made["sizes"][0]["size"] == {"histogram": [[5, 6, 3], [896, 1024, 1]]}
    assert made["initial_files"] == {"object": 4}
    assert (said.status, "Wrote" in said.err) == (0, False)
    said = shell("make-scenario", *words, "--objects", 9)
    assert json.loads(said.out)["initial_files"] == {"object": 9}
    for name, why in (("none", 'container "none": no such container'), ("empty", "no objects in")):
        said = shell("make-scenario", "--from-container", name, *store)
        assert (said.status, said.out, why in said.err) == (1, "", True)


@pytest.mark.parametrize("quiet", [False, True])
def test_a_new_file_gets_the_scenario_and_its_place_is_told(
    quiet: bool, store: list[str], shell: Shell, tmp_path: Path
) -> None:
    path, log = tmp_path / "own.scenario", tmp_path / "log"
    words = ["--output", path, *(["-q"] if quiet else [])]
    status, out, err = shell("make-scenario", "--from-container", "c", *store, *words)
    assert Scenario.from_json(path.read_text()).name == "Objects like those of c"
    assert (status, out) == (0, "")
    assert err.endswith("" if quiet else f"Wrote {path}, with the sizes of 3 objects of c\n")
    assert bool(err) is not quiet
    path.unlink()
    log.write_text(LINE % ("08:00:00", "PUT", 900) + LINE % ("08:00:09", "GET", 900))
    status, out, err = shell("make-scenario", "--from-access-log", log, *words)
    assert Scenario.from_json(path.read_text()).name == "Requests like those of an access log"
    assert (status, out) == (0, "")
    if quiet:
        assert err == ""
    else:
        told = err.splitlines()[1:]
        assert told.pop(3).startswith("The run uploads about ")
        assert told == [
            "  paths of 2 requests: /CONTAINER/OBJECT",
            "Rate: 0.2 requests/s on average over 9 s, which the scenario has; 1 in the busiest"
            " second",
            "Objects are picked uniformly: their popularity does not follow Zipf's law, or has too"
            " few reads to tell",
            f"Wrote {path}, with the requests of access logs",
        ]


LINE = '- - - [20/Nov/2026:%s +0000] "%s /c/o HTTP/1.1" 200 %d\n'


def test_a_command_line_of_warp_may_not_be_empty(shell: Shell) -> None:
    status, _, told = shell("make-scenario", "--from-warp", "")
    assert (status, '--from-warp: "": give a command line' in told) == (2, True)


@pytest.mark.parametrize("command", [["make-scenario", "--from-access-log"], ["replay", "--noop"]])
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "log: can't be read: No such file or directory"),
        (b"", "log: is empty; give an access log"),
        (b"Frank\n", "letters and digits masked, line 1: Aaaaa\n"),
        (b"\x1f\x8b\x08cut", "log: is damaged, or cut off"),
    ],
)
def test_logs_that_cannot_be_used_are_errors_of_one_line(
    shell: Shell, command: list[str], content: bytes | None, says: str
) -> None:
    log = shell.folder / "log"
    if content is not None:
        log.write_bytes(content)
    said = shell(*command, log)
    assert said.status in (1, 2)
    assert says in said.err
    assert said.err.count("\n") == 1


def test_a_replay_without_a_request_in_its_times_is_a_usage_error(shell: Shell) -> None:
    log = shell.folder / "log"
    log.write_text('h - - [10/Oct/2000:13:55:36 +0000] "GET /x HTTP/1.1" 200 10\n')
    for option in ("--start=2001-01-01T00:00Z", "--end=2000-10-10T13:55:36"):
        said = shell("replay", log, "--noop", option)
        assert said.status == 2
        assert said.err.endswith("no operation among them: outside --start and --end (1)\n")


def test_the_requests_used_and_left_out_add_up_to_the_lines(shell: Shell) -> None:
    log = shell.folder / "log"
    requests = ["PUT /c/o", "DELETE /c/o", "GET /c/o", "GET /c/p"]
    lines = [f'- - - [20/Nov/2026:08:00:00 +0000] "{each} HTTP/1.1" 200 9\n' for each in requests]
    log.write_text("".join([*lines, "x\n"]))
    status, _, told = shell("make-scenario", "--from-access-log", log)
    assert status == 0
    assert "Read 5 lines: 3 requests used\n" in told
    assert "left out 1: of objects that the log deleted before\n" in told
    assert "not understood 1;" in told
