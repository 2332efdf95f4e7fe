"""Command lines of nectar become those of bench."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Mapping

import pytest

from ssbench.cli.commands import master_parser
from ssbench.cli.master import main
from ssbench.commands.bench import command as bench_commands
from ssbench.commands.bench.settings import bench_words
from ssbench.core.errors import ExitStatus, UsageError
from tests.cli.shell import Shell

V3 = ["-V", "3", "-A", "http://h:5000/v3/", "-U", "u", "-K", "p", "--os-project-name", "t",
      "--os-user-domain-name", "Default", "--os-project-domain-name", "Default"]  # fmt: skip


def words(line: str, environ: Mapping[str, str] = {}) -> list[str]:
    found = bench_words(shlex.split(line), environ)
    master_parser(found).parse_args(found)  # and bench takes them
    return found


def test_a_line_with_options_of_both_kinds() -> None:
    line = "-continue-on-error -A http://h:5000/v3/ -T t -U u -P p -C 250 bench-put -count 7 c"
    assert words(line) == ["bench", "put", "c", "--count", "7", "-u", "250", *V3]


@pytest.mark.parametrize(
    ("line", "login"),
    [
        ("-A http://h/v3 -T t -U u -K k", ["-V", "3", "-A", "http://h/v3", "-U", "u", "-K", "k"]),
        (
            "-A http://h/v2.0 -T t -U u -P p",
            ["-V", "2.0", "-A", "http://h/v2.0", "-U", "u", "-K", "p", "--os-project-name", "t"],
        ),
        (
            "-A http://h/auth/v1.0 -T t -U u -K k -P p",
            ["-V", "1.0", "-A", "http://h/auth/v1.0", "-U", "t:u", "-K", "k"],
        ),
        ("-A http://h/auth/v1.0 -U t:u -P p", ["-U", "t:u", "-K", "p"]),
    ],
)
def test_the_path_of_the_url_tells_how_to_log_in(line: str, login: list[str]) -> None:
    assert " ".join(login) in " ".join(words(f"{line} bench-get c"))


def test_options_override_variables() -> None:
    environ = {
        "AUTH_URL": "http://h:5000/v3/", "AUTH_TENANT": "t", "AUTH_USER": "other",
        "AUTH_PASSWORD": "p", "CONCURRENCY": "9",
    }  # fmt: skip
    assert words("-U u bench-head c", environ) == [
        "bench", "head", "c", "--stop-on-error", "-u", "9", *V3,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("-continue-on-error=false bench-get c", "--stop-on-error"),
        ("-I bench-get c", "--os-endpoint-type internal"),
        ("-R north bench-get c", "--os-region-name north"),
        ("-O http://a/v1/A,http://b/v1/A bench-get c", "-S http://a/v1/A -S http://b/v1/A"),
        ("-H 'X-A: 1' -H X-B:2 bench-get c", "--header X-A: 1 --header X-B:2"),
        ("bench-mixed --time=1h30m c", "--time 1h30m"),
        ("bench-put -csvot o -maxsize 9 c d", "put c d --csv-over-time o --max-size 9"),
        ("--scale=0.001 bench-delete -count 10000000 c", "--count 10000 "),
        ("--scale=0.001 bench-delete c", "--count 1 "),
        ("--scale=0.01 bench-mixed c", "--time 6.0 --delete-behind 100"),
        ("--workers=1 --retries=0 bench-get c", "--workers=1 --retries=0"),
        ("bench-get -- -c", "bench get -c "),
    ],
)
def test_each_option_has_its_counterpart(line: str, part: str) -> None:
    assert part in " ".join(bench_words(shlex.split(line), {})) + " "


def test_no_worker_inherits_its_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[argparse.Namespace] = []

    def get(ns: argparse.Namespace) -> ExitStatus:
        found.append(ns)
        return ExitStatus.OK

    monkeypatch.setattr(bench_commands, "bench", get)
    monkeypatch.setenv("AUTH_PASSWORD", "s3cret")
    assert main(["-q", "nectar", "-A", "http://h/v3", "-U", "u", "bench-get", "c"]) == 0
    (ns,) = found
    assert (ns.command, ns.quiet, ns.key) == ("bench get", True, "s3cret")
    assert "AUTH_PASSWORD" not in os.environ


def test_no_message_repeats_a_password() -> None:
    with pytest.raises(UsageError) as caught:
        bench_words(["-Psecret", "bench-get", "c"], {})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["-Z", "bench-put", "c"], "nectar: unknown option -Z"),
        (["-Ksecret", "bench-put", "c"], "nectar: unknown option -...; it has"),
        (["bench-put", "-time", "2h", "c"], "bench-put: unknown option -time"),
        (["bench-put", "-count"], "bench-put: -count has no value"),
        (["bench-put"], "nectar bench-put: give <container>"),
        (["-v"], "nectar: give a command: bench-put, "),
        (["upload", "c"], "nectar: give a command: bench-put, "),
        (["--scale=2", "bench-put", "c"], "--scale: give a factor above 0, at most 1"),
        (["bench-put", "-count", "x", "c"], 'nectar bench-put: -count: "x" is not a whole'),
        (["-C", "x", "bench-put", "c"], 'nectar: -C: "x" is not a whole number'),
    ],
)
def test_a_wrong_command_line_is_reported(shell: Shell, words: list[str], reason: str) -> None:
    said = shell("nectar", *words)
    assert said.status == 2
    assert reason in said.err
    assert "secret" not in said.out + said.err
