"""What gives the keys of a profile, asked by botocore in a child: keys, and limits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ssbench.core.errors import ExitStatus, UsageError
from ssbench.storage.options import StoreOptions
from ssbench.storage.s3 import login as s3login
from ssbench.storage.s3.client import AwsKeys
from ssbench.storage.s3.login import read_access
from tests.fakes.loopback_http import Answer, LoopbackServer
from tests.fakes.scripted_server import Script, ScriptedServer
from tests.fakes.served_pool import dripping, endless, saying

KEYS = (
    b'{"AccessKeyId": "A", "SecretAccessKey": "s", "Token": "t", "Expiration": "2099-01-01T00:00Z"}'
)
OK = b"HTTP/1.1 200 OK\r\n"
MASTER = Path(__file__).parents[3] / "bin/ssbench-master"
#: Runs a command, and prints the most memory that it and its children had, in KiB. Of what this
#: process starts itself it would be no less than this process has.
MEASURE = """if True:
    import resource, subprocess, sys
    status = subprocess.run(sys.argv[1:]).returncode
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
    sys.exit(status)
"""
#: Of ssbench-master (60 MB were measured) and of its child (280 MB).
MOST_MEMORY_MB = 400


def environ_of(folder: Path, url: str, **more: str) -> dict[str, str]:
    (folder / "config").write_text("[profile bare]\nregion = eu-north-1\n")
    return {
        **os.environ, "AWS_CONFIG_FILE": str(folder / "config"), "AWS_PROFILE": "bare",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{url}/keys", **more,
    }  # fmt: skip


def test_a_child_finds_the_store_and_the_keys(tmp_path: Path) -> None:
    with LoopbackServer(Answer(200, {}, KEYS)) as service:
        opened = StoreOptions("s3", {}, environ_of(tmp_path, service.url))
        found, keys = read_access(opened, {})
    assert keys == AwsKeys("A", "s", "t")
    assert (found.region, found.endpoint) == ("eu-north-1", "https://s3.eu-north-1.amazonaws.com")
    assert "'s'" not in repr(found)


@pytest.mark.parametrize("start", [OK + b"Content-Length: 999\r\n\r\n", OK])
def test_a_service_that_never_ends_its_response_gives_no_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    """The metadata of a container, for one; those of an instance have a fixed address."""
    assert s3login._KEYS_WITHIN_S == 120
    monkeypatch.setattr(s3login, "_KEYS_WITHIN_S", 2.0)
    with ScriptedServer(dripping(start, b"x")) as server:
        environ = environ_of(tmp_path, f"http://127.0.0.1:{server.port}")
        with pytest.raises(UsageError, match=r"^profile bare: no keys within 2 s: does what"):
            read_access(StoreOptions("s3", {}, environ), {})


LARGE = b"[" + b"{}," * 10_000_000 + b"0]"  # 0.7 GB as objects


@pytest.mark.parametrize("script", [
    endless(OK + b"\r\n", b"x" * 1_000_000),
    saying(OK + b"Content-Length: %d\r\n\r\n" % len(LARGE) + LARGE),
], ids=["endless", "large"])  # fmt: skip
def test_a_response_of_any_size_takes_bounded_memory(tmp_path: Path, script: Script) -> None:
    """Of the command and all its children."""
    with ScriptedServer(script) as server:
        words = ["doctor", "--storage", "s3", "--s3-endpoint", "http://127.0.0.1:9"]
        ended = subprocess.run(
            [sys.executable, "-c", MEASURE, sys.executable, MASTER, *words],
            env=environ_of(tmp_path, f"http://127.0.0.1:{server.port}"),
            stdout=subprocess.PIPE,
            text=True,
        )
    assert ended.returncode == ExitStatus.FAILED
    assert "profile bare: what gives its keys" in ended.stdout
    assert int(ended.stdout.split()[-1]) / 1024 < MOST_MEMORY_MB
