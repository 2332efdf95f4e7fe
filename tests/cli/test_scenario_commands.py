"""make-scenario: what is wrong with its output is told before a container is listed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ssbench.cli.master import main
from ssbench.core.scenario.scenario import Scenario


@pytest.mark.parametrize(
    ("name", "why"), [("x" * 300, "File name too long"), ("there", "it exists; name a new file")]
)
def test_an_output_that_cannot_be_written_is_a_usage_error(
    tmp_path: Path, name: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there").touch()
    words = ["make-scenario", "--from-container", "c", "--output", str(tmp_path / name)]
    assert main([*words, "--storage", "file", "--path", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("ssbench-master: --output ")
    assert error.endswith(f"{why}\n")


@pytest.fixture
def store(tmp_path: Path) -> list[str]:
    """Options of a store with two containers."""
    for name, sizes in (("c", (1000, 2000, 3000)), ("d", (5,))):
        (tmp_path / name).mkdir()
        for number, size in enumerate(sizes):
            (tmp_path / name / str(number)).write_bytes(b"x" * size)
    return ["--storage", "file", "--path", str(tmp_path)]


def test_a_scenario_of_containers_has_their_sizes(
    store: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--from-container", "c", "--from-container", "d", *store]
    assert main(["make-scenario", *words]) == 0
    out, err = capsys.readouterr()
    made = json.loads(out)
    assert made["name"] == "Objects like those of c, d"
    assert made["initial_files"] == {"object": 4}
    assert "Wrote" not in err
    assert main(["make-scenario", *words, "--objects", "9"]) == 0
    assert json.loads(capsys.readouterr().out)["initial_files"] == {"object": 9}


@pytest.mark.parametrize("quiet", [False, True])
def test_a_new_file_gets_the_scenario_and_its_place_is_told(
    quiet: bool, store: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, log = tmp_path / "own.scenario", tmp_path / "log"
    words = ["--output", str(path), *(["-q"] if quiet else [])]
    assert main(["make-scenario", "--from-container", "c", *store, *words]) == 0
    assert Scenario.from_json(path.read_text()).name == "Objects like those of c"
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("" if quiet else f"Wrote {path}, with the sizes of 3 objects of c\n")
    assert bool(err) is not quiet
    path.unlink()
    log.write_text(LINE % ("08:00:00", "PUT", 900) + LINE % ("08:00:09", "GET", 900))
    assert main(["make-scenario", "--from-access-log", str(log), *words]) == 0
    assert Scenario.from_json(path.read_text()).name == "Requests like those of an access log"
    out, err = capsys.readouterr()
    assert out == ""
    if quiet:
        assert err == ""
    else:
        told = err.splitlines()[1:]
        assert told.pop(2).startswith("The run uploads about ")
        assert told == [
            "Rate: 0.2 requests/s on average over 9 s, which the scenario has; 1 in the busiest"
            " second",
            "Objects are picked uniformly: their popularity does not follow Zipf's law, or has too"
            " few reads to tell",
            f"Wrote {path}, with the requests of access logs",
        ]


LINE = '- - - [20/Nov/2026:%s +0000] "%s /c/o HTTP/1.1" 200 %d\n'


def test_options_that_do_not_go_together_are_usage_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["make-scenario", "--from-container", "c", "--log-format", "s3"]) == 2
    assert "--log-format: containers have none; leave it out" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["make-scenario"])
    assert "one of the arguments --from-container --from-access-log is required" in (
        capsys.readouterr().err
    )


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
    tmp_path: Path, command: list[str], content: bytes | None, says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    log = tmp_path / "log"
    if content is not None:
        log.write_bytes(content)
    assert main([*command, str(log)]) in (1, 2)
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_times_of_a_replay_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["replay", "log", "--noop", "--start", "yesterday"])
    assert "--start: 'yesterday' is not a time: give one as in" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["replay", "log", "--noop", "--speed", "1e9"])
    assert "--speed: 1e9 is out of range: give a factor" in capsys.readouterr().err
    log = tmp_path / "log"
    log.write_text('h - - [10/Oct/2000:13:55:36 +0000] "GET /x HTTP/1.1" 200 10\n')
    for option in ("--start=2001-01-01T00:00Z", "--end=2000-10-10T13:55:36"):
        assert main(["replay", str(log), "--noop", option]) == 2
        says = "no operation among them: outside --start and --end (1)\n"
        assert capsys.readouterr().err.endswith(says)


def test_the_requests_used_and_left_out_add_up_to_the_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    requests = ["PUT /c/o", "DELETE /c/o", "GET /c/o", "GET /c/p"]
    lines = [f'- - - [20/Nov/2026:08:00:00 +0000] "{each} HTTP/1.1" 200 9\n' for each in requests]
    log.write_text("".join([*lines, "x\n"]))
    assert main(["make-scenario", "--from-access-log", str(log)]) == 0
    told = capsys.readouterr().err
    assert "Read 5 lines: 3 requests used\n" in told
    assert "left out 1: of objects that the log deleted before\n" in told
    assert "not understood 1;" in told
