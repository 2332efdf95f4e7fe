"""Command lines of Swift Profiler become those of upload; .env files become variables."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest

from ssbench.cli.commands import master_parser
from ssbench.cli.master import main
from ssbench.commands.transfer import command as transfer_commands
from ssbench.commands.transfer.settings import env_file, upload_words
from ssbench.core.errors import ExitStatus, UsageError


@pytest.mark.parametrize(
    ("flags", "checksum"),
    [
        ("", "precompute"),
        ("-precompute-checksum=true -verify-checksum=true", "precompute"),
        ("-precompute-checksum -verify-checksum=T", "precompute"),
        ("-precompute-checksum=false", "store"),
        ("-verify-checksum=false", "none"),
        ("-precompute-checksum=0 --verify-checksum=0", "none"),
    ],
)
def test_both_switches_are_on_by_default(flags: str, checksum: str) -> None:
    found = upload_words(["-input-dir=/data", *flags.split()])
    ns = master_parser(found).parse_args(found)
    assert (ns.command, ns.checksum, ns.folder, ns.users) == ("upload", checksum, "/data", 16)
    assert ns.place == ("benchmark-test", "")


@pytest.mark.parametrize(
    "line",
    [
        "--concurrency=2 --workers=3 -input-dir=d",
        "-concurrency=2 --workers=3 --input-dir=d",
        "--workers=3 --concurrency 2 --input-dir d",
        "-verify-checksum --workers=3 -concurrency 2 --input-dir=d",
    ],
)
def test_two_dashes_are_as_one_and_our_options_go_between(line: str) -> None:
    found = upload_words([*line.split(), "--profile"])
    ns = master_parser(found).parse_args(found)
    assert (ns.users, ns.workers, ns.folder, ns.profile) == (2, 3, "d", True)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("-concurrency=3", "give the folder of the files with -input-dir=DIR"),
        ("-input-dir=d more", "unexpected argument: more"),
        ("-input-dir=d -other=1", "unknown option -other"),
        ("-input-dir=d -concurrency=x", 'profiler: -concurrency: "x" is not a whole number'),
        ("-input-dir=d -num-files=0", "profiler: -num-files: 0 is below 1"),
        ("-input-dir=d -dest-prefix=/a", "profiler: -dest-prefix: '/a': give a container"),
        ("-input-dir=d -verify-checksum=perhaps", "-verify-checksum: give true or false"),
    ],
)
def test_other_lines_are_refused(line: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        upload_words(line.split())
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("ST_KEY=k\nexport ST_USER='a:b' # who\n\n# c\nOS_X=\"a b\"",
         {"ST_KEY": "k", "ST_USER": "a:b", "OS_X": "a b"}),
        ("ST_KEY=a#b # comment\nOTHER_KEY=x\nST_AUTH=\nGIVEN=1", {"ST_KEY": "a#b"}),
        ("OS_GIVEN=new", {}),
        ("SWIFT_AUTH_URL=http://h/auth/v1.0\nSWIFT_API_USER=u\nSWIFT_API_KEY=k\nSWIFT_TENANT=t",
         {"ST_AUTH": "http://h/auth/v1.0", "ST_USER": "u", "ST_KEY": "k"}),
        ("SWIFT_AUTH_URL=http://h/v3\nSWIFT_API_USER=u\nSWIFT_API_KEY=k\nSWIFT_API_DOMAIN=d\n"
         "SWIFT_TENANT=t",
         {"OS_AUTH_URL": "http://h/v3", "OS_USERNAME": "u", "OS_PASSWORD": "k",
          "OS_USER_DOMAIN_NAME": "d", "OS_PROJECT_DOMAIN_NAME": "d", "OS_PROJECT_NAME": "t"}),
    ],
)  # fmt: skip
def test_the_file_gives_the_variables_of_the_swift_command(
    tmp_path: Path, text: str, variables: dict[str, str]
) -> None:
    (tmp_path / ".env").write_text(text)
    assert env_file(tmp_path / ".env", {"OS_GIVEN": "old"}) == variables


def test_the_command_is_an_upload_with_the_variables_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    uploads: list[argparse.Namespace] = []

    def upload(ns: argparse.Namespace) -> ExitStatus:
        uploads.append(ns)
        return ExitStatus.OK

    monkeypatch.setattr(transfer_commands, "upload", upload)
    monkeypatch.setenv("ST_KEY", "")
    monkeypatch.delenv("ST_KEY")  # again after the test
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("ST_KEY=s3cret")
    assert main(["-v", "profiler", "--workers=3", "-input-dir=d", "-dest-prefix=c/e"]) == 0
    (ns,) = uploads
    assert (ns.verbose, ns.as_profiler, ns.workers) == (True, True, 3)
    assert (ns.folder, ns.place) == ("d", ("c", "e"))
    assert os.environ["ST_KEY"] == "s3cret"
    assert (
        capsys.readouterr().err
        == "Port 6060 is not opened; --profile reports where CPU time goes\n"
    )


def test_a_malformed_line_is_named_and_not_shown(tmp_path: Path) -> None:
    assert env_file(tmp_path / "none", {}) == {}
    (tmp_path / ".env").write_text("ST_USER=u\nexport s3cret\n")
    with pytest.raises(UsageError, match="line 2: give NAME=value") as caught:
        env_file(tmp_path / ".env", {})
    assert "s3cret" not in str(caught.value)
    (tmp_path / ".env").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="is not UTF-8"):
        env_file(tmp_path / ".env", {})
