"""How to reach a store, as every command that talks to one is told."""

from __future__ import annotations

import pytest

from ssbench.cli.config import store_options
from ssbench.cli.master import main
from ssbench.core.errors import UsageError
from ssbench.storage.swift.options import login_options
from tests.cli.shell import parsed


def test_a_url_after_storage_is_a_storage_url() -> None:
    """``--storage`` was a short form of ``--storage-url``, as any beginning of an option is."""
    chosen = store_options(parsed("cleanup-containers --storage http://h/v1/A"), {})
    assert (chosen.driver, login_options(chosen).storage_urls) == ("swift", ("http://h/v1/A",))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--storage swfit", 'store "swfit" is unknown: one of swift, '),
        ("--storage no.such:Class", "no.such"),
        ("--storage noop -A http://h", "-A is an option of --storage swift, and the store is noop"),
        ("--s3-bucket b", "--s3-bucket is an option of --storage s3, and the store is swift"),
        ("--url http://h/", "--url is an option of --storage webdav"),
        ("--path /d", "--path is an option of --storage file"),
        ("--fsync", "give --storage file, or leave out --fsync"),
        ("--storage file --insecure", "--insecure is an option of --storage swift or s3 or webdav"),
        ("--storage file --connect-timeout 5", "--connect-timeout: the store file has no connect"),
        ("--storage noop --source-address ::1", "--source-address: the store noop has no connect"),
        ("--storage noop --storage-option x=s3cret", "this store has no options"),
        ("--storage-option key=s3cret", "key: is secret, and a command line can be read"),
        ("--noop --storage swift", "--noop is short for --storage noop"),
    ],
)
def test_options_of_other_stores_are_rejected(words: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        store_options(parsed(f"run-scenario -f s {words}"), {})
    assert says in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "command",
    [
        "run-scenario -f very_small",
        "find-limit -f very_small --slo p99<1s",
        "doctor",
        "cleanup-containers",
        "cleanup-containers --resume-cleanup x",
        "bench put c",
        "bench suite",
        "upload . --container c",
        "download --container c",
        "make-scenario --from-container c",
        "make-scenario --from-access-log /dev/null",
        "replay /dev/null",
    ],
)
def test_no_command_ignores_an_option_of_another_store(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It must not use the store of ST_AUTH, which the user did not mean."""
    monkeypatch.setenv("ST_AUTH", "http://127.0.0.1:1/auth/v1.0")
    assert main([*command.split(), "--s3-endpoint", "http://127.0.0.1:1"]) == 2
    assert "--s3-endpoint" in capsys.readouterr().err
