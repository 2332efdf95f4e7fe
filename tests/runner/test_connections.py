"""From options to a store that we have a token for; and the master's ports."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from ssbench.core.errors import AuthError, UsageError
from ssbench.core.settings import StorageSettings, TransportConfig
from ssbench.runner.session import bind, check_encrypted, reach_store
from ssbench.runner.stop import Stop
from ssbench.storage.options import StoreOptions
from ssbench.storage.registry import open_admin
from ssbench.transport.key import CurveKey
from tests.fakes.auth_v1 import AuthV1
from tests.fakes.loopback_http import Answer, Request

ROOT = Path(__file__).resolve().parents[2]


def options(fake: AuthV1, *storage_urls: str, key: str = "testing") -> StoreOptions:
    given = {"auth": fake.auth_url, "user": fake.user, "key": key, "storage_urls": storage_urls}
    return StoreOptions(
        "swift", given, {}, StorageSettings(connect_timeout_s=3.0, network_timeout_s=4.0)
    )


def test_no_store_at_all() -> None:
    store = reach_store(StoreOptions("noop"), print, Stop())
    assert open_admin(store.settings).make_container("c") is None


def test_a_slow_login_is_reported() -> None:
    said: list[str] = []

    class Slow(AuthV1):
        def answer(self, request: Request) -> Answer:
            while not said:
                time.sleep(0.01)
            return super().answer(request)

    with Slow() as fake:
        reach_store(options(fake), print, Stop(), said.append)
    assert said[0] == f"Waiting for the login at {fake.auth_url}"


def test_login_libraries_print_nothing() -> None:
    """keystoneauth1 loads osprofiler where that is installed, which loads what is deprecated."""
    code = """\
import importlib.abc, sys, warnings
class Old(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.startswith("keystoneauth1"):
            warnings.warn("of old", DeprecationWarning)
sys.meta_path.insert(0, Old())
from ssbench.runner.stop import Stop
from ssbench.runner.session import reach_store
from ssbench.storage.options import StoreOptions
try:
    reach_store(StoreOptions(), print, Stop())
except Exception as error:
    print(type(error).__name__)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=ROOT, check=False, text=True,
        capture_output=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("UsageError\n", "")


def test_a_wrong_key_is_refused_and_not_shown() -> None:
    with AuthV1() as fake, pytest.raises(AuthError) as caught:
        reach_store(options(fake, key="s3cret"), print, Stop())
    assert "s3cret" not in str(caught.value)


# Ports --------------------------------------------------------------------------------------


def ports(key_file: str | None = None) -> TransportConfig:
    return TransportConfig(None, 0, 0, 0, key_file)


def test_a_master_may_have_connections_to_many_workers(few_files: int) -> None:
    with bind(ports(), print):
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (few_files, few_files)


@pytest.mark.parametrize(
    ("address", "with_key", "is_open"),
    [
        (None, False, False),
        ("127.0.0.1", False, False),
        ("127.0.0.9", False, False),
        ("0.0.0.0", False, True),
        ("0.0.0.0", True, False),
        (None, True, False),
    ],
)
def test_unknown_peers_that_could_connect_are_warned_of_and_get_no_credentials_like_passwords(
    address: str | None, with_key: bool, is_open: bool
) -> None:
    warnings: list[str] = []
    key = CurveKey.generate() if with_key else None
    with bind(replace(ports(), address=address), warnings.append, key=key) as wire:
        if not is_open:
            assert warnings == []
            check_encrypted(wire)
            return
        (text,) = warnings
        assert "\n" not in text
        assert "can read the token and take jobs; use --zmq-key-file" in text
        assert str(wire.ports.control) in text
        with pytest.raises(UsageError, match=r"listens on 0\.0\.0\.0 without a key: encrypt"):
            check_encrypted(wire)


@pytest.mark.parametrize(
    ("key_file", "hint"),
    [(None, "as this user, without a --zmq-key-file"), ("none", "with --zmq-key-file none")],
)
def test_a_master_says_how_workers_find_its_key(
    key_file: str | None, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with bind(ports(key_file), print) as wire:
        assert (wire.key_hint, wire.has_key) == (hint, key_file is None)
