"""Each option of a run, in each place where it can be given: its value, and a wrong one's error."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

import ssbench
from ssbench.cli.commands import COMMANDS, master_parser
from ssbench.cli.config import run_config
from ssbench.cli.site import SiteDefaults
from ssbench.core.errors import UsageError
from ssbench.core.option import Option, options_of_fields
from ssbench.core.scenario.scenario import OPTIONS
from ssbench.core.settings import StorageSettings, TransportConfig
from ssbench.core.stats.thresholds import Threshold
from ssbench.core.units import Unit
from ssbench.runner.config import RunConfig
from ssbench.storage.options import StoreOptions

#: Structs with settings of a run -> how to get one from its configuration.
KINDS: dict[type[Struct], Callable[[RunConfig], Any]] = {
    RunConfig: lambda run: run,
    StorageSettings: lambda run: run.store and run.store.settings,
    StoreOptions: lambda run: run.store,
    TransportConfig: lambda run: run.transport,
}
ROWS = {row.flags[-1]: row for rows in (OPTIONS, *map(options_of_fields, KINDS)) for row in rows}
#: Option -> a text, and the value in its struct.
RIGHT: dict[str, tuple[str, Any]] = {
    "--keep-objects": ("", True), "--use-existing": ("", True), "--existing": ("c/p", "c/p"),
    "--compressible": ("", True), "--verify": ("", True), "--operation-timeout": ("1m", 60.0),
    "--drain-timeout": ("0", 0.0), "--max-consecutive-errors": ("3", 3), "--stop-on-error": ("", 1),
    "--profile": ("", True), "--workers": ("1", 1), "--ssh-workers": ("a{1..2}:3", None),
    "--ssh-command": ("'ssh -4'", ("ssh", "-4")), "--ssh-worker-command": ("/bin/w", "/bin/w"),
    "--ssh-master": ("h", None), "--expect-workers": ("4", 4), "--worker-wait": ("0", 0.0),
    "--fewer-workers-ok": ("", True), "--worker-timeout": ("2.5", 2.5),
    "--source-address": ("192.0.2.1", None), "--batch-size": ("8", 8),
    "--stats-file": ("x", "x.gz"), "--identities": ("x", "x"),
    "--results-dir": ("d", "d"), "--force": ("", True), "--abort-on-threshold": ("5s", None),
    "--users": ("1", 1), "--op-count": ("1", 1), "--duration": ("90s", 90.0),
    "--container-count": ("1", 1), "--container-base": ("mine", "mine"),
    "--block-size": ("4k", 4096),
    "--delete-after": ("2h", 7200), "--policy": ("gold", "gold"), "--seed": ("0", 0),
    "--rate": ("2.5", 2.5), "--arrivals": ("poisson", "poisson"),
    "--bandwidth": ("1MB", 1_000_000), "--checksum": ("md5", "md5"),
    "--checksum-in": ("trailer", "trailer"),
    "--think-time": ("0.1,2", [0.1, 2.0]), "--warmup": ("0", 0.0), "--cooldown": ("0s", 0.0),
    "--connect-timeout": ("2", 2.0), "--network-timeout": ("1m", 60.0), "--max-listed": ("9", 9),
    "--url-choice": ("round-robin", "round-robin"),
    "--zmq-bind-ip": ("::1", "::1"), "--zmq-work-port": ("1", 1), "--zmq-results-port": ("2", 2),
    "--zmq-control-port": ("3", 3), "--zmq-key-file": ("k", "k"),
    "--retries": ("0", 0), "--pctile": ("99.9", (99.9,)),
    "--threshold": ("'p99 < 1s'", (Threshold.parse("p99 < 1s"),)), "--auto-stop": ("", True),
    "--auto-stop-window": ("4s", 4), "--auto-stop-tolerance": ("20", 20.0),
}  # fmt: skip
#: Option -> a wrong text, and the start of its error behind the place.
WRONG = {
    "--existing": ("/p", "'/p': give a container"),
    "--operation-timeout": ("0", "0 is not above 0; a number of seconds above 0"),
    "--drain-timeout": ("-1", "-1 is below 0; a number of seconds of 0 or more"),
    "--max-consecutive-errors": ("0", "0 is below 1"),
    "--workers": ("0", "0 is below 1; a whole number from 1 up"),
    "--ssh-workers": ("a{", "'a{': a brace is not closed"),
    "--ssh-command": ("'\"'", "'\"': give a command"),
    "--expect-workers": ("0", "0 is below 1"),
    "--worker-wait": ("-1", "-1 is below 0; a number of seconds"),
    "--worker-timeout": ("nan", "nan is not a finite number"),
    "--source-address": ("h", "'h' is not an IP address"),
    "--batch-size": ("0", "'0': give auto, or a number"),
    "--abort-on-threshold": ("0", "0 is below 1; a whole number of seconds from 1 up"),
    "--users": ("0", "0 is below 1"), "--op-count": ("-1", "-1 is below 1"),
    "--duration": ("0", "0 is not above 0"), "--container-count": ("0", "0 is below 1"),
    "--block-size": ("2G", "2G is above 1073741824; bytes from 1 to 1073741824, or with a unit"),
    "--container-base": ("a/b", '"a/b" has a slash; a name without slashes'),
    "--policy": ("'a b'", '"a b" is not the name of a policy'),
    "--delete-after": ("500ms", "500ms is not a whole number"), "--seed": ("-1", "-1 is below 0"),
    "--rate": ("0", "0 is not above 0; a number of operations a second"),
    "--bandwidth": ("0", "0 is below 1"), "--think-time": ("2,1", "'2,1': give seconds"),
    "--warmup": ("-1", "-1 is below 0"), "--cooldown": ("1week", '"1week" can\'t be read'),
    "--arrivals": ("often", ""), "--checksum": ("crc", ""), "--checksum-in": ("body", ""),
    "--retries": ("-1", "-1 is below 0"),
    "--connect-timeout": ("0", "0 is not above 0"), "--network-timeout": ("0", "0 is not above 0"),
    "--url-choice": ("often", ""),
    "--max-listed": ("0", "0 is below 1"), "--zmq-work-port": ("0", "0 is below 1"),
    "--zmq-results-port": ("x", '"x" is not a whole number'),
    "--zmq-control-port": ("65536", "65536 is above"),
    "--pctile": ("101", "101 is above 100; a percentile above 0"),
    "--threshold": ("'p99 < 1'", '"p99 < 1": character 8: p99 needs a unit'),
    "--auto-stop-window": ("0", "0 is below 1"),
    "--auto-stop-tolerance": ("100", "100 is not below"),
}  # fmt: skip
#: Option -> another that it needs.
NEEDED = {"--auto-stop-window": "--auto-stop", "--auto-stop-tolerance": "--auto-stop",
          "--force": "-s x.gz", "--ssh-command": "--ssh-workers h",
          "--ssh-worker-command": "--ssh-workers h", "--ssh-master": "--ssh-workers h"}  # fmt: skip
#: They need what other options give, and only parse here.
_NOT_NOOP = ("--existing", "--verify", "--identities")
_ALONE = {"--ssh-workers", "--ssh-master", "--source-address", "--abort-on-threshold"}


def test_the_tables_have_each_option_of_a_run() -> None:
    assert RIGHT.keys() == ROWS.keys()
    assert {*ROWS} <= {row.flags[-1] for row in COMMANDS["run-scenario"].rows if row.flags}
    any_text = {row for row in ROWS.values() if row.type in (bool, str) and not row.choices}
    assert WRONG.keys() == ROWS.keys() - {row.flags[-1] for row in any_text} - {"--stats-file"}


def settings(
    tmp_path: Path,
    line: str,
    environ: dict[str, str],
    file: str,
    command: str = "run-scenario -f very_small --noop",
) -> Any:
    path = tmp_path / "config.toml"
    path.write_text(file)
    site = SiteDefaults.read({"SSBENCH_CONFIG": str(path), **environ})
    words = shlex.split(f"{command} {line}")
    site.check({name: each.rows for name, each in COMMANDS.items()})
    return master_parser(words, site).parse_args(words)


def places(row: Option, text: str) -> dict[str, tuple[str, dict[str, str], str]]:
    """Where an option can be given -> command line, variables, and the site's file."""
    flag = row.flags[-1]
    found: dict[str, tuple[str, dict[str, str], str]] = {
        f"argument {'/'.join(row.flags)}": (flag + (f"={text}" if text else ""), {}, "")
    }
    if not row.command_line_only:
        variable = "SSBENCH_" + flag[2:].upper().replace("-", "_")
        plain = " ".join(shlex.split(text)) if text else "true"
        found[variable] = ("", {variable: plain}, "")
        found[f"config.toml: {flag[2:]}"] = ("", {}, f"{flag[2:]} = '''{plain}'''")
    return found


@pytest.mark.parametrize("flag", sorted(ROWS))
def test_a_value_is_the_same_from_each_place(tmp_path: Path, flag: str) -> None:
    row, (text, value) = ROWS[flag], RIGHT[flag]
    seen = []
    for line, environ, file in places(row, text).values():
        ns = settings(tmp_path, f"{NEEDED.get(flag, '')} {line}", environ, file)
        seen.append(getattr(ns, row.name))
        if flag not in _ALONE and flag not in _NOT_NOOP:
            run = run_config(ns, {})
            assert value_in(run, row) == value
            assert run.overrides == ({row.scenario_key: value} if row.scenario_key else {})
    assert seen[1:] == seen[:-1]


@pytest.mark.parametrize("flag", sorted(WRONG))
def test_an_error_names_the_place_that_gave_the_value(
    tmp_path: Path, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text, message = WRONG[flag]
    for place, given in places(ROWS[flag], text).items():
        try:
            settings(tmp_path, *given)
        except (UsageError, SystemExit) as error:
            said = str(error) if isinstance(error, UsageError) else capsys.readouterr().err
        else:
            said = "no error"
        assert f"{place}: {message}" in said


def value_in(run: RunConfig, row: Option) -> Any:
    if row.scenario_key:
        return run.overrides[row.scenario_key]
    (owner,) = (find(run) for kind, find in KINDS.items() if row in options_of_fields(kind))
    return getattr(owner, row.name)


def from_python(monkeypatch: pytest.MonkeyPatch, **given: Any) -> RunConfig:
    monkeypatch.setattr("ssbench.runner.run", lambda config, *_: config)
    return ssbench.run("very_small", storage="noop", **given)  # type: ignore[return-value]


@pytest.mark.parametrize("flag", sorted({*ROWS} - {*_ALONE, "--stop-on-error", *_NOT_NOOP}))
def test_a_program_gives_the_same_value(flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row, value = ROWS[flag], RIGHT[flag][1]
    needed = [name for name, each in ROWS.items() if row.needs == each.name]
    given = {ROWS[name].name: right_setting(name) for name in (flag, *needed)}
    assert value_in(from_python(monkeypatch, **given), row) == value


def right_setting(flag: str) -> str | bool:
    return "x.gz" if ROWS[flag].file == "x" else " ".join(shlex.split(RIGHT[flag][0])) or True


@pytest.mark.parametrize("flag", sorted(WRONG))
def test_an_error_of_a_program_names_the_argument(
    flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, message = WRONG[flag]
    name = ROWS[flag].name
    with pytest.raises(UsageError) as caught:
        from_python(monkeypatch, **{name: " ".join(shlex.split(text))})
    assert str(caught.value).startswith(f"{name}: {message}")


def checked_options() -> dict[str, tuple[str, Option]]:
    """Options with a type that has wrong values -> a command that has it, and the row."""
    return {
        row.flags[-1]: (command, row)
        for command, each in COMMANDS.items()
        for row in each.rows
        if row.flags and row.keys and row.help and row.flags[-1] not in ROWS
        if row.type is bool or isinstance(row.type, Unit) or row.choices
    }


@pytest.mark.parametrize("option", sorted(checked_options()))
def test_options_of_other_commands_name_the_place_of_a_wrong_value(
    tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command, row = checked_options()[option]
    flag = row.flags[-1]
    variable = "SSBENCH_" + flag[2:].upper().replace("-", "_")
    where = {
        f"argument {'/'.join(row.flags)}: ": (f"{flag}=!", {}, ""),
        f"{variable}: ": ("", {variable: "!"}, ""),
        f"config.toml: {flag[2:]}: ": ("", {}, f"{flag[2:]} = '!'"),
    }
    for place, given in where.items():
        line, environ, _ = given
        if (environ and row.of_store) or (line and row.type is bool):
            continue  # the store reads its variables itself; a switch takes no value
        with pytest.raises((UsageError, SystemExit)) as caught:
            settings(tmp_path, *given, f"{command} --show-config")
        said = f"{caught.value}\n{capsys.readouterr().err}"
        assert place in said or (row.command_line_only and "is for the command line only" in said)
