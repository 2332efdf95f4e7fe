"""Runs against real WebDAV servers, as a user runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.commands import Commands, finished, rows_of, workers_of
from tests.e2e.test_secrets import Watcher, none_has, nowhere
from tests.servers.webdav import PASSWORD, USER, Apache, DavServer, Nginx, WsgiDav

OPERATIONS = {
    "create": 3, "read": 4, "update": 2, "delete": 2, "head": 1, "copy": 1, "range_read": 2,
}  # fmt: skip
#: What not every server can do: nginx has no PROPPATCH, and wsgidav answers 500 to a PROPFIND while
#: an object of the folder is deleted.
LISTINGS = {"list": 1, "list_all": 1, "list_random": 1}
MORE = {
    Apache: {**LISTINGS, "post": 1, "create_if_absent": 1}, Nginx: LISTINGS,
    WsgiDav: {"post": 1, "create_if_absent": 1},
}  # fmt: skip
SIZES = [{"name": "tiny", "size_min": 1000, "size_max": 1000}]
apache = pytest.mark.program("apache2")
nginx = pytest.mark.program("nginx-dav-ext")


def scenario(commands: Commands, **keys: object) -> Path:
    """Objects of one size: Apache sends the length of one and the body of the other to a GET
    beside a PUT that replaces an object by one of another size.
    """
    given = {"operations": OPERATIONS, "container_base": "dav", "sizes": SIZES, **keys}
    return commands.scenario(**given)


@pytest.fixture(scope="module")
def wsgidav() -> Iterator[DavServer]:
    """Shared, with digest: take a container base of your own."""
    with WsgiDav("digest") as server:
        yield server


@pytest.mark.parametrize(
    "server",
    [
        pytest.param(Apache("digest"), id="apache-digest", marks=apache),
        pytest.param(Nginx("basic"), id="nginx-basic", marks=nginx),
        pytest.param(WsgiDav("digest"), id="wsgidav-digest"),
    ],
)
def test_a_run_on_each_server_is_verified_cleaned_and_shows_no_secret(
    commands: Commands, server: DavServer
) -> None:
    with server:
        operations = {**OPERATIONS, **MORE[type(server)]}
        alone = {"rivals": 1} if "create_if_absent" in operations else {}
        path = scenario(commands, operations=operations, operation_count=90, **alone)
        given = {"environment": server.environment}
        words = ["-f", path, "--verify", *server.options]
        started = commands.start_run("-v", *words, **given, program=True)
        with Watcher(started) as watcher:
            ended = started.wait().fine()
        assert ended.counted()[:2] == (90, 0)
        assert len(workers_of(ended.results)) == 2
        assert {name for name, count in finished(ended.stats).items() if count} == {
            name.upper() for name in operations
        }
        # What the run created is gone, what it began with stays, and a second run finds it there.
        left = [name for name in server.names() if not name.endswith(("/", ".ssbench"))]
        assert len(left) <= 10
        again = commands.run(*words, "-o", 20, workers=1, **given).fine()
        assert again.counted()[1] == 0
        report = commands.master("cleanup-containers", "-b", "dav", *server.options, **given)
        assert "3 containers" in report.wait().fine().out
        assert server.names() == []
        none_has(watcher.public, *server.secrets)
        none_has(watcher.inherited, *server.secrets, "WEBDAV_PASSWORD")
        nowhere(commands.place, *server.secrets)


@apache
def test_nonces_that_become_stale_are_no_errors(commands: Commands) -> None:
    """One of four users begins 15 operations at least, and thinks before each for 0.2 s."""
    with Apache("digest", nonce_lifetime_s=1) as server:
        words = ["-f", scenario(commands), "--think-time", 0.2, *server.options]
        ended = commands.run(*words, workers=1, environment=server.environment).fine()
    starts = [row["start_ns"] for row in rows_of(ended.results)]
    assert max(starts) - min(starts) > 2 * 10**9, "two lifetimes"
    assert ended.counted() == (60, 0, 0)
    assert ended.stats.total().renewals == 0


@nginx
def test_names_in_folders(commands: Commands) -> None:
    path = scenario(
        commands, key_names="deep", operations={"create": 2, "read": 2, "delete": 1},
        operation_count=20,
    )  # fmt: skip
    with Nginx() as server:
        ended = commands.run("-f", path, "--verify", "-k", *server.options, workers=1).fine()
        assert ended.counted()[1] == 0
        assert any(name.count("/") == 4 and "tiny_" in name for name in server.names())
        words = ["cleanup-containers", "-b", "dav", *server.options]
        assert "3 containers" in commands.master(*words).wait().fine().out
        assert server.names() == []


if sys.version_info >= (3, 11):  # netrc of 3.10 knows no quotes

    @apache
    @pytest.mark.program("cadaver")
    def test_another_client_with_the_same_netrc_keeps_its_file(commands: Commands) -> None:
        """As docs/how-to/webdav.rst has it."""
        home = commands.place / "home"
        home.mkdir()
        netrc = home / ".netrc"
        netrc.touch(mode=0o600)
        netrc.write_text(f'machine 127.0.0.1 login {USER} password "{PASSWORD}"\n')
        testfile = home / "testfile"
        testfile.write_bytes(bytes(range(256)) * 4000)
        (home / "script").write_text("put testfile\nquit\n")
        path = scenario(commands, operation_count=10)
        with Apache("digest") as server:
            cadaver = subprocess.run(
                ["cadaver", "--rcfile=script", f"{server.url}/"], cwd=home, capture_output=True,
                env={**os.environ, "HOME": str(home)}, text=True, check=True,
            )  # fmt: skip
            assert "succeeded" in cadaver.stdout
            given = {"environment": {"HOME": str(home)}}
            ended = commands.run("-f", path, *server.options, workers=1, **given).fine()
            assert ended.counted()[1] == 0
            words = ["cleanup-containers", "-b", "dav", *server.options]
            assert "3 containers" in commands.master(*words, **given).wait().fine().out
            assert server.names() == ["testfile"]
            assert (server.files / "testfile").read_bytes() == testfile.read_bytes()


def test_changed_requests_to_two_urls_of_one_collection(
    commands: Commands, wsgidav: DavServer
) -> None:
    path = scenario(
        commands, container_base="changed", keep_alive=False, expect_continue=True,
        headers={"X-Own": "1"}, operation_count=20,
    )  # fmt: skip
    options = [*wsgidav.options, "--url", wsgidav.url.replace("127.0.0.1", "localhost")]
    ended = commands.run("-f", path, *options, workers=1, environment=wsgidav.environment).fine()
    assert ended.counted()[:2] == (20, 0)


def test_a_wrong_password_is_refused_and_not_shown(commands: Commands, wsgidav: DavServer) -> None:
    wrong = {"WEBDAV_USER": USER, "WEBDAV_PASSWORD": "Wr0ng-passw0rd-of-nobody"}
    path = scenario(commands)
    ended = commands.run("-v", "-f", path, *wsgidav.options, workers=1, environment=wrong)
    assert f"{wsgidav.url}/: the server rejected the user or password (401)" in ended.one_line()
    ended = commands.run("-v", "-f", path, *wsgidav.options, workers=1)
    assert "asks for user and password (401)" in ended.one_line()
    nowhere(commands.place, wrong["WEBDAV_PASSWORD"], *wsgidav.secrets)
