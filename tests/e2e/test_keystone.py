"""Keystone v3: every way in that people use."""

from __future__ import annotations

import csv
import json
import re
import shlex
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.e2e.commands import (
    LONGEST_S,
    MASTER,
    ROOT,
    Commands,
    check_all_done,
    clean_environment,
    requests,
)
from tests.e2e.test_nectar import own_options
from tests.e2e.test_secrets import Watcher, none_has, nowhere
from tests.e2e.warm import Forked
from tests.servers.keystone import STRANGER, TESTER, Account, KeystoneSwift


def password_options(auth_url: str, account: Account) -> list[str]:
    return [
        "--os-auth-url", auth_url, "--os-identity-api-version", "3",
        "--os-username", account.user, "--os-password", account.password,
        "--os-project-name", account.project,
        "--os-user-domain-name", account.domain, "--os-project-domain-name", account.domain,
    ]  # fmt: skip


def test_a_password(commands: Commands, keystone: KeystoneSwift) -> None:
    base = "password"
    path = commands.scenario(container_base=base, operation_count=20)
    options = password_options(keystone.auth_url, TESTER)
    ended = commands.run("-f", path, *options, workers=1).fine()
    check_all_done(ended, 20, keystone.swift, base)
    accounts = {
        line.split(" ")[1].split("/")[2]
        for line in keystone.swift.access_log().read_text().splitlines()
        if f"/{base}_" in line
    }
    (its_own,) = accounts  # the containers are in the account of the project
    assert its_own.startswith("KEY_")
    assert len(requests(keystone.swift, base)) > 20


def test_identities_of_two_projects(commands: Commands, keystone: KeystoneSwift) -> None:
    """By passwords in two domains, and by an application credential of the first one's user."""
    entries = [
        {
            "name": each.domain, "os_username": each.user, "os_password": each.password,
            "os_project_name": each.project, "os_user_domain_name": each.domain,
            "os_project_domain_name": each.domain,
        }
        for each in (TESTER, STRANGER)
    ]  # fmt: skip
    credential = {
        "os_application_credential_id": keystone.app_id,
        "os_application_credential_secret": keystone.app_secret,
    }
    one, other = commands.place / "passwords.key", commands.place / "credential.key"
    one.write_text(json.dumps({"identities": entries}))
    other.write_text(json.dumps({"identities": [credential, {**credential, "name": "again"}]}))
    one.chmod(0o600)
    other.chmod(0o600)
    access = ["--os-auth-url", keystone.auth_url, "--os-identity-api-version", 3, "--identities"]
    path = commands.scenario(container_base="tenants", operation_count=60, user_count=4)
    run = commands.run("-f", path, *access, one, workers=1).fine()
    report = json.loads(commands.call("report-scenario", run.results, "--json").fine().out)
    by_identity = {each["identity"]: each for each in report["by_identity"]}
    assert list(by_identity) == [TESTER.domain, STRANGER.domain]
    assert all(each["count"] and not each["errors"] for each in by_identity.values())
    assert len(report["store"]["urls"]) == 2, "an account for each project"
    assert "as 2 identities" in commands.call("doctor", *access, one, "--workers", 1).fine().out
    with_credential = ["--os-auth-type", "v3applicationcredential", *access, other]
    run = commands.run("-f", path, *with_credential, workers=1).fine()
    assert len(run.stats.identities()) == 2
    for words in ([*access, one], with_credential):
        commands.call("cleanup-containers", "-b", "tenants", *words).fine()
        cleaned = commands.call("cleanup-containers", "-b", "tenants", *words).fine()
        assert cleaned.out.count("No containers to delete") == 2


def test_the_environment_of_an_openrc(commands: Commands, keystone: KeystoneSwift) -> None:
    environment = {
        "OS_AUTH_URL": keystone.auth_url,
        "OS_IDENTITY_API_VERSION": "3",
        "OS_USERNAME": STRANGER.user,
        "OS_PASSWORD": STRANGER.password,
        "OS_PROJECT_NAME": STRANGER.project,
        "OS_USER_DOMAIN_NAME": STRANGER.domain,
        "OS_PROJECT_DOMAIN_NAME": STRANGER.domain,
        "OS_REGION_NAME": "RegionOne",
    }
    path = commands.scenario(container_base="openrc", operation_count=20)
    ended = commands.run("-f", path, environment=environment, workers=1)
    check_all_done(ended, 20, keystone.swift, "openrc")
    command = ["cleanup-containers", "-b", "openrc", "--yes"]
    ended = commands.call(*command, environment=environment).fine()
    assert "3 containers" in ended.out


def test_clouds_of_clouds_yaml(commands: Commands, keystone: KeystoneSwift, tmp_path: Path) -> None:
    path = tmp_path / "clouds.yaml"
    path.write_text(f"""\
clouds:
  stranger:
    auth:
      auth_url: {keystone.auth_url.removesuffix("/v3")}
      username: {STRANGER.user}
      password: {STRANGER.password}
      project_name: {STRANGER.project}
      user_domain_name: {STRANGER.domain}
      project_domain_name: {STRANGER.domain}
    region_name: RegionOne
  app:
    auth_type: v3applicationcredential
    auth:
      auth_url: {keystone.auth_url}
      application_credential_id: {keystone.app_id}
      application_credential_secret: {keystone.app_secret}
    interface: public
""")
    environment = {"OS_CLIENT_CONFIG_FILE": str(path), "OS_CLOUD": "stranger"}
    scenario = commands.scenario(container_base="clouds", operation_count=20)
    for options in ([], ["--os-cloud", "app"]):
        before = len(requests(keystone.swift, "clouds"))
        ended = commands.run("-f", scenario, *options, environment=environment, workers=1)
        check_all_done(ended, 20, keystone.swift, "clouds", before)
        assert STRANGER.password not in ended.out + ended.err
        assert keystone.app_secret not in ended.out + ended.err


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("--os-password", "open sesame", "user or key refused (401)"),
        ("--os-user-domain-name", "Elsewhere", "user or key refused (401)"),
        ("--os-region-name", "Atlantis", "RegionOne"),
    ],
)
def test_login_errors_are_one_line(
    commands: Commands, keystone: KeystoneSwift, option: str, value: str, reason: str
) -> None:
    path = commands.scenario(container_base="wrong")
    options = [*password_options(keystone.auth_url, TESTER), option, value]
    line = commands.call_run("-f", path, *options).one_line()
    assert reason in line
    assert keystone.auth_url in line
    assert "sesame" not in line


#: A password of nobody's.
WRONG = "Xq7-key-of-nobody-else"


def test_an_environment_with_a_password_shows_it_nowhere(
    commands: Commands, keystone: KeystoneSwift
) -> None:
    environment = {
        "OS_AUTH_URL": keystone.auth_url,
        "OS_IDENTITY_API_VERSION": "3",
        "OS_USERNAME": TESTER.user,
        "OS_PASSWORD": TESTER.password,
        "OS_PROJECT_NAME": TESTER.project,
        "OS_USER_DOMAIN_NAME": TESTER.domain,
        "OS_PROJECT_DOMAIN_NAME": TESTER.domain,
    }
    path = commands.scenario(container_base="envpass", operation_count=20)
    options = {"environment": environment, "workers": 1, "program": True}
    started = commands.start_run("-v", "-f", path, **options)
    with Watcher(started) as watcher:
        assert started.wait().fine().counted()[1] == 0
    none_has(watcher.inherited, "OS_PASSWORD")
    nowhere(commands.place, "OS_PASSWORD", f'"{TESTER.password}"')
    wrong = {**environment, "OS_PASSWORD": WRONG}
    commands.call_run("-v", "-f", path, environment=wrong).fine(1)
    nowhere(commands.place, WRONG)


# Command lines of nectar's benchmark as they stand

LINES = ROOT / "tests/corpus/nectar"
#: Of 10,000,000 objects, and two hours.
SCALE = "0.000005"
WRITE = ["completion_time_unix_nano", "object_name", "transaction_id", "status"]
HEADS = {
    "put": [*WRITE, "elapsed_nanoseconds"],
    "get": [*WRITE, "headers_elapsed_nanoseconds", "elapsed_nanoseconds"],
    "delete": [*WRITE, "elapsed_nanoseconds"],
    "mixed": [WRITE[0], "method", *WRITE[1:], "elapsed_nanoseconds"],
}


def run_line(line: str, place: Path, keystone: KeystoneSwift) -> str:
    """Run it in a folder of its own; its output also goes where the line sends it."""
    command, name = line.split(" 2>&1 | tee ")
    _, *words = shlex.split(command.replace("${KEYSTONE}", urlsplit(keystone.auth_url).netloc))
    own = [f"--scale={SCALE}", *own_options("--containers", "3")]
    environment = {**clean_environment(), "TMPDIR": str(place)}
    with (place / name).open("wb") as output:
        args = [sys.executable, str(MASTER), "nectar", *own, *words]
        process = Forked(args, stdout=output, stderr=output, env=environment, cwd=place)
        status = process.wait(LONGEST_S)
    said = (place / name).read_text()
    assert status == 0, said
    assert "Traceback" not in said, said
    return said


def lines_of(series: str) -> list[str]:
    """The commands of a series, with single spaces."""
    lines = (LINES / f"{series}.sh").read_text().splitlines()
    return [" ".join(line.split()) for line in lines if line.startswith("nectar ")]


def test_nectars_lines_run_as_they_stand(
    tmp_path: Path, fork_server: None, keystone: KeystoneSwift
) -> None:
    """Those of 4 KiB: the mixed one, and of the two turns the first."""
    lines = lines_of("4KB")
    assert len(lines) == 7
    # The other series has other names, counts and sizes; the second turn has other names.
    large = [line.replace("1MB", "4KB").replace("-mb-", "-kb-") for line in lines_of("1MB")]
    numbers = re.compile(r"(-count|-size) \d+")
    assert [numbers.sub(r"\1", line) for line in large] == [
        numbers.sub(r"\1", line) for line in lines
    ]
    second = [line for line in lines if "-2- " in line and "mixed" not in line]
    as_first = {re.sub(r"2(-|\.csv)", r"1\1", line) for line in second}
    assert len(as_first) == 3
    lines = [line for line in lines if line not in second]
    assert as_first < {*lines}
    said = {line.split()[-1]: run_line(line, tmp_path, keystone) for line in lines}
    for method, unit in (("put", "PUT"), ("get", "GET"), ("delete", "DELETE")):
        text = said[f"big-test-ec-kb-{method}-1-"]
        assert "total time, " in text
        assert f" {unit}s per second." in text
        head, *rows = csv.reader((tmp_path / f"bench4KB{method}1.csv").read_text().splitlines())
        assert head == HEADS[method]
        assert len(rows) == 50 * (3 if method == "get" else 1)
        assert {row[1].split("/")[0].rstrip("0123456789") for row in rows} == {"bench-ec-kb-1-"}
        assert all(row[3].startswith("20") for row in rows)
    assert " requests per second." in said["big-test-ec-kb-mixed-1-"]
    head, *rows = csv.reader((tmp_path / "bench4KBmixed1.csv").read_text().splitlines())
    assert head == HEADS["mixed"]
    # On a busy host a second may be too short for what follows an upload.
    assert {"PUT"} <= {row[1] for row in rows} <= {"PUT", "GET", "HEAD", "POST", "DELETE"}
