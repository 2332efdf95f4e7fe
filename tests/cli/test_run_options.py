"""The options of run-scenario: what each comes to, what is refused, what doesn't go together."""

from __future__ import annotations

import argparse

import pytest

from ssbench.cli.limit_options import add_find_limit
from ssbench.cli.parser import Parser
from ssbench.cli.run_options import add_run_scenario


def parsed(line: str) -> argparse.Namespace:
    parser = Parser(prog="run-scenario")
    add_run_scenario(parser)
    return parser.parse_args(line.split())


def refused(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a wrong command line is told, in its first line."""
    with pytest.raises(SystemExit) as caught:
        parsed(line)
    assert caught.value.code == 2
    return capsys.readouterr().err.splitlines()[0]


def test_what_is_said_is_what_differs() -> None:
    plain, full = vars(parsed("-f s")), vars(parsed("-f s -u 9 -k --warmup 2 --zmq-work-port 7"))
    assert {name: full[name] for name in full if full[name] != plain[name]} == {
        "user_count": 9,
        "keep_objects": True,
        "warmup": 2.0,
        "zmq_work_port": 7,
    }


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        ("-r 0.5", "run_seconds", 0.5),
        ("--run-seconds 60", "run_seconds", 60.0),
        ("--op-count 5", "operation_count", 5),
        ("--delete-after 0", "delete_after", 0),
        ("--rate 0.5", "rate", 0.5),
        ("--arrivals poisson", "arrivals", "poisson"),
        ("--think-time 0.1,2", "think_time", [0.1, 2.0]),
        ("--warmup 0", "warmup", 0.0),
        ("--cooldown 1", "cooldown", 1.0),
        ("--auto-stop-window 4", "auto_stop_window", 4),
        ("--auto-stop-tolerance 2.5", "auto_stop_tolerance", 2.5),
        ("--drain-timeout 0", "drain_timeout", 0.0),
        ("--max-consecutive-errors 3", "max_consecutive_errors", 3),
        ("--stop-on-error", "max_consecutive_errors", 1),
        ("--worker-wait 0", "worker_wait", 0.0),
        ("--progress none", "progress", "none"),
        ("--force", "force", True),
    ],
)
def test_what_each_comes_to(words: str, name: str, value: object) -> None:
    assert getattr(parsed(f"-f s {words}"), name) == value


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("-u 1.5", "-u/--user-count: '1.5' is not a whole number"),
        ("-o 0", "-o/--op-count: 0 is out of range"),
        ("-r 0", "-r/--run-seconds: 0 is not a duration: give seconds above 0, as in 2.5"),
        ("-r nan", "-r/--run-seconds: 'nan' is not a duration"),
        ("-c -1", "-c/--container-count: -1 is out of range"),
        ("-b 0", "-b/--block-size: '0' is not a size: give bytes above 0, as in 4096, 4k"),
        ("--delete-after -1", "--delete-after: '-1' is not a duration: give seconds, 0 or more"),
        ("--seed -1", "--seed: -1 is out of range"),
        ("--rate 0", "--rate: 0 is not a rate"),
        ("--arrivals often", "--arrivals: invalid choice; choose from uniform, poisson"),
        ("--think-time 2,1", "--think-time: '2,1': give seconds, or the shortest and the longest"),
        ("--sweep users", "--sweep: 'users': give users=1,20,40 or rate=100,200"),
        ("--sweep users=1,1", "--sweep: 'users=1,1': 1 is given more than once"),
        ("--auto-stop-tolerance 100", "--auto-stop-tolerance: 100 is not a tolerance"),
        (
            "--operation-timeout 0",
            "--operation-timeout: 0 is not a duration: give seconds above 0, as in 2.5",
        ),
        ("--workers 0", "--workers: 0 is out of range"),
        ("--expect-workers 0", "--expect-workers: 0 is out of range"),
        (
            "--worker-timeout 0",
            "--worker-timeout: 0 is not a duration: give seconds above 0, as in 2.5",
        ),
    ],
)
def test_bad_values_are_said_with_what_would_be_right(
    words: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"argument {says}" in refused(f"-f s {words}", capsys)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "one of the arguments -f/--filename --resume-cleanup is required"),
        ("-f s --resume-cleanup x", "--resume-cleanup: not allowed with argument -f/--filename"),
        ("-f s --noop --embedded-swift", "--embedded-swift: not allowed with argument --noop"),
        ("-f s --csv --json", "--json: not allowed with argument --csv"),
        (
            "-f s --stop-on-error --max-consecutive-errors 2",
            "--max-consecutive-errors: not allowed with argument --stop-on-error",
        ),
        (
            "-f s --work 3",
            "--work is ambiguous: it could be --workers or --worker-wait or --worker-t",
        ),
    ],
)
def test_what_does_not_go_together_is_said(
    line: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert says in refused(line, capsys)


def test_find_limit_has_all_of_them_that_go_with_it() -> None:
    """One that isn't told of there would be missing from its namespace, and end in a traceback."""
    parser = Parser(prog="find-limit")
    add_find_limit(parser)
    there = vars(parser.parse_args(["-f", "s", "--slo", "p99 < 1s"]))
    only = set(vars(parsed("-f s"))) - set(there)
    assert only == {"auto_stop_window", "auto_stop_tolerance"}  # of no use without --auto-stop
