"""Defaults of a site: variables and file, their precedence, and what is wrong with them."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ssbench.cli.commands import COMMANDS, master_parser
from ssbench.cli.config import store_options
from ssbench.cli.site import SiteDefaults, describe
from ssbench.cli.worker_options import WORKER, worker_parser
from ssbench.core.errors import UsageError
from ssbench.storage.swift.options import login_options

TABLES = {**{name: each.rows for name, each in COMMANDS.items()}, "ssbench-worker": WORKER}
Parse = Callable[..., argparse.Namespace]


@pytest.fixture
def parse(tmp_path: Path) -> Parse:
    """Parse a command line of ssbench-master, with a file and variables."""

    def parsed(
        line: str, file: str = "", environ: Mapping[str, str] = {}, mode: int = 0o600
    ) -> argparse.Namespace:
        path = tmp_path / "config.toml"
        path.write_text(file)
        path.chmod(mode)
        site = SiteDefaults.read({"SSBENCH_CONFIG": str(path), **environ})
        site.check(TABLES)
        words = shlex.split(line)
        return master_parser(words, site).parse_args(words)

    return parsed


RUN = "run-scenario -f s"


@pytest.mark.parametrize(
    ("line", "environ", "file", "users"),
    [
        (RUN, {}, "", None),
        (RUN, {}, "users = 3", 3),
        (RUN, {}, "user_count = 3", 3),
        (RUN, {}, "users = 3\n[run-scenario]\nusers = 4", 4),
        (RUN, {}, "users = 3\n[find-limit]\nusers = 4", 3),
        (RUN, {"SSBENCH_USERS": "5"}, "users = 3\n[run-scenario]\nusers = 4", 5),
        (RUN, {"SSBENCH_USER_COUNT": "5"}, "users = 3", 5),
        (RUN, {"SSBENCH_USERS": ""}, "users = 3", 3),
        (f"{RUN} -u 6", {"SSBENCH_USERS": "5"}, "users = 3", 6),
    ],
)
def test_precedence(
    parse: Parse, line: str, environ: dict[str, str], file: str, users: int | None
) -> None:
    assert parse(line, file, environ).users == users


@pytest.mark.parametrize(
    ("file", "name", "value"),
    [
        ("pctile = [99, 99.9]", "percentiles", [99.0, 99.9]),
        ("pctile = 99", "percentiles", [99.0]),
        ("compressible = false", "compressible", False),
        ("json = true", "format", "json"),
        ("csv = false", "format", None),
        ("csv = false\njson = true", "format", "json"),
        ("batch-size = 'auto'", "batch_size", None),
    ],
)
def test_values_are_those_of_the_command_line(
    parse: Parse, file: str, name: str, value: object
) -> None:
    assert getattr(parse(RUN, file), name) == value


def test_a_table_of_bench_is_for_each_of_its_commands(parse: Parse) -> None:
    file = "users = 2\n[bench]\nusers = 3\n['bench put']\nusers = 4"
    assert [parse(f"bench {name} c", file).users for name in ("put", "get")] == [4, 3]
    assert parse(RUN, file).users == 2


def test_a_list_is_replaced_not_extended(parse: Parse) -> None:
    assert parse(f"{RUN} --pctile 50", "pctile = [99, 99.9]").percentiles == [50.0]
    several = {"SSBENCH_THRESHOLD": "p99 < 50ms\nerrors < 1%"}
    found = parse(RUN, "", several).thresholds
    assert list(map(str, found)) == ["p99 < 50ms", "errors < 1%"]


def test_required_options_may_be_in_the_file(parse: Parse) -> None:
    assert parse("run-scenario", "scenario = 's'").scenario == "s"
    assert list(map(str, parse("find-limit -f s", "slo = 'p99 < 1s'").slos)) == ["p99 < 1s"]


def test_an_option_voids_the_defaults_that_it_excludes(parse: Parse) -> None:
    assert parse(f"{RUN} -o 5", "duration = 9").seconds is None
    assert parse(RUN, "duration = 9", {"SSBENCH_OP_COUNT": "5"}).seconds is None
    both = parse(RUN, "duration = 9\nop-count = 5")
    assert (both.seconds, both.operations) == (9.0, 5)
    assert parse("report-scenario f --csv", "json = true").format == "csv"


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("usrs = 3", "usrs: no such option; did you mean users"),
        ("[run-scenario]\nusrs = 3", "[run-scenario] usrs: no such option; did you mean users"),
        (
            "[run-scenaro]\nusers = 3",
            "[run-scenaro]: no such command; did you mean run-scenario or",
        ),
        ("[make-key]\nusers = 3", "[make-key] users: no such option"),
        ("[ssbench-worker]\nmastr = 'h'", "[ssbench-worker] mastr: no such option; did you mean"),
        ("users = [1, 2]", "users: give one value, not a list"),
        ("users = {a = 1}", "[users]: no such command"),
        ("csv = true\njson = true", "json: excludes"),
        ("yes = true", "yes: is for the command line only"),
        ("users = 1\nusers = 2", "is not valid TOML"),
        ("users 1", "(at line 1, column 7)"),
        ("usrs = 1\n[run-scenario]\nforce = true", "[run-scenario] force: is for the command"),
    ],
)
def test_faults_are_named_with_file_and_key(
    parse: Parse, tmp_path: Path, file: str, says: str
) -> None:
    with pytest.raises(UsageError) as caught:
        parse(RUN, file)
    lines = str(caught.value).splitlines()
    assert all(str(tmp_path / "config.toml") in line for line in lines)
    assert says in lines[-1]


def test_misspelt_variables_are_named() -> None:
    site = SiteDefaults(
        {"SSBENCH_USRS": "3", "SSBENCH_USERS": "3", "SSBENCH_ALL_SERVERS": "1", "X": ""}
    )
    assert list(site.misspelt_variables(TABLES)) == [
        "SSBENCH_USRS: no such variable; did you mean SSBENCH_USERS or SSBENCH_USER?"
    ]


def test_secrets_need_a_private_file(parse: Parse, tmp_path: Path) -> None:
    file = "auth = 'http://h/auth'\nuser = 'a:u'\nkey = 's3cret'"
    with pytest.raises(UsageError) as caught:
        parse(RUN, file, mode=0o640)
    assert "key: is secret, and others may read this file (mode 0640): chmod 600" in str(
        caught.value
    )
    assert "s3cret" not in str(caught.value)
    ns = parse(RUN, file)
    assert "s3cret" not in repr(ns)
    login = login_options(store_options(ns, {}))
    assert (login.auth, login.user, login.key) == ("http://h/auth", "a:u", "s3cret")
    assert "s3cret" not in repr(login)


def test_variables_of_the_store_override_the_file(parse: Parse) -> None:
    file = "auth = 'http://h/auth'\nuser = 'a:u'\nkey = 'file'"
    for name in ("ST_KEY", "SSBENCH_KEY"):
        assert login_options(store_options(parse(RUN, file), {name: "env"})).key == "env"
    keystone = {"OS_AUTH_URL": "http://k/v3", "OS_USERNAME": "me", "OS_PASSWORD": "pw"}
    login = login_options(store_options(parse(RUN, file), keystone))
    assert (login.auth, login.user, login.key, login.os_username) == ("", "", "", "me")


@pytest.mark.parametrize(
    "command", ["run-scenario", "find-limit", "bench put", "compare", "gen-files"]
)
def test_show_config_needs_nothing_that_the_command_needs(parse: Parse, command: str) -> None:
    ns = parse(f"{command} --show-config")
    shown = [*describe(ns, COMMANDS[command].rows, {})]
    assert shown == ["All other options have their defaults."]


@pytest.mark.parametrize("key", ["s3_secret_key", "os_password", "unknown"])
def test_show_config_shows_no_value_that_may_be_secret(parse: Parse, key: str) -> None:
    file = f"storage-option = ['s3_region=here', 's3_secret_key_file=path', '{key}=s3cret']"
    lines = list(describe(parse(RUN, file), COMMANDS["run-scenario"].rows, {}))
    (shown,) = (line for line in lines if line.startswith("storage-option"))
    assert "s3cret" not in shown
    assert f"= s3_region=here, s3_secret_key_file=path, {key}=********  (" in shown


def test_show_config_shows_values_as_they_are_written_and_their_origins(
    parse: Parse, tmp_path: Path
) -> None:
    file = """
ssh-workers = "bench-{01..20}:4"
ssh-command = "ssh -i ~/.ssh/bench"
pctile = [50, 99.9]
verify = true
duration = 60
workers = 2
key = "s3cret"
"""
    line = "-r 15m --sweep users=1,20 --threshold 'errors < 1%' --threshold 'p99 < 1s' -u 5"
    environ = {"SSBENCH_WORKERS": "3", "ST_USER": "ignored"}
    ns = parse(f"run-scenario {line} --show-config", file, environ)
    path = tmp_path / "config.toml"
    assert {*describe(ns, COMMANDS["run-scenario"].rows, {"ST_USER": "a:u"})} == {
        "user-count = 5  (command line)",
        "run-seconds = 15m  (command line)",
        "sweep = users=1,20  (command line)",
        "threshold = errors < 1%, p99 < 1s  (command line)",
        "workers = 3  (SSBENCH_WORKERS)",
        "user = a:u  (ST_USER)",
        f"key = ********  ({path}: key)",
        f"ssh-workers = bench-{{01..20}}:4  ({path}: ssh-workers)",
        f"ssh-command = ssh -i ~/.ssh/bench  ({path}: ssh-command)",
        f"pctile = 50, 99.9  ({path}: pctile)",
        f"verify = true  ({path}: verify)",
        "All other options have their defaults.",
    }
    (duration, *_others) = describe(parse("run-scenario --show-config", file),
                                    COMMANDS["run-scenario"].rows, {})  # fmt: skip
    assert duration == f"run-seconds = 60  ({path}: duration)"


def test_a_worker_takes_its_own_table_and_what_it_knows(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("users = 3\nretries = 2\n[ssbench-worker]\nmaster = 'bench1'")
    site = SiteDefaults.read({"SSBENCH_CONFIG": str(path)})
    site.check({"ssbench-worker": WORKER}, "ssbench-worker")
    ns = worker_parser(site.values("ssbench-worker", WORKER)).parse_args([])
    assert (ns.address, ns.retries) == ("bench1", 2)


def test_where_the_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    for folder in (home / ".config", tmp_path / "xdg"):
        (folder / "ssbench").mkdir(parents=True)
        (folder / "ssbench/config.toml").write_text(f"scenario = '{folder.name}'")
    monkeypatch.setenv("HOME", str(home))
    assert SiteDefaults.read({}).content == {"scenario": ".config"}
    assert SiteDefaults.read({"XDG_CONFIG_HOME": str(tmp_path / "xdg")}).content == {
        "scenario": "xdg"
    }
    assert SiteDefaults.read({"XDG_CONFIG_HOME": str(tmp_path)}).content == {}
    for ignored in ("", os.path.relpath(tmp_path / "xdg")):
        assert SiteDefaults.read({"XDG_CONFIG_HOME": ignored}).content == {"scenario": ".config"}
    assert SiteDefaults.read({"SSBENCH_CONFIG": ""}).content == {}
    with pytest.raises(UsageError, match="nowhere: can't be read: No such file"):
        SiteDefaults.read({"SSBENCH_CONFIG": str(tmp_path / "nowhere")})


def test_each_option_has_a_key_that_no_other_option_has() -> None:
    for command, rows in TABLES.items():
        keys = [key for row in rows for key in row.keys]
        assert len(keys) == len(set(keys)), command
