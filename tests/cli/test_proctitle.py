"""What is left of a command line in the process list."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ssbench.cli.commands import master_parser
from ssbench.cli.console import MASK
from ssbench.cli.proctitle import mask
from ssbench.core.option import Option
from ssbench.storage.swift.options import OPTIONS, LoginOptions

ROOT = Path(__file__).resolve().parents[2]
SECRET = "Xq7-not-for-ps"
SECRETS = [option for option in OPTIONS if option.secret]


def spellings(option: Option) -> list[list[str]]:
    """Every way to give it that the parser takes."""
    found = []
    for flag in option.flags:
        found.append([flag, SECRET])
        if flag.startswith("--"):
            found.append([f"{flag}={SECRET}"])
            if flag.startswith("--os-"):
                old = "--" + flag[2:].replace("-", "_")
                found += [[old, SECRET], [f"{old}={SECRET}"]]
        else:
            found += [[f"{flag}{SECRET}"], [f"{flag}={SECRET}"], [f"-v{flag[1]}{SECRET}"],
                      [f"-kv{flag[1]}", SECRET]]  # fmt: skip
    return found


BY_FIELD = {option.name: spellings(option) for option in SECRETS}


@pytest.mark.parametrize("field", BY_FIELD)
def test_a_secret_is_masked_in_every_spelling(field: str) -> None:
    begin, end = ["run-scenario", "-f", "small"], ["-u", "4"]
    parser = master_parser(begin)
    for words in BY_FIELD[field]:
        line = [*begin, *words, *end]
        assert getattr(parser.parse_args(line), field).endswith(SECRET), f"{words}: no spelling"
        first, *others = mask(line)[3:-2]
        assert SECRET not in first + "".join(others)
        assert MASK in first + "".join(others)
        assert mask(line) == [*begin, first, *others, *end]


@pytest.mark.parametrize("field", BY_FIELD)
def test_a_secret_of_a_variant_is_masked(field: str) -> None:
    for words in BY_FIELD[field]:
        own = shlex.join(["-u", "4", *words])
        for line in (["ab", "x", "--b", own, "-q"], ["ab", "x", f"--b={own}", "-q"]):
            masked = mask(line)
            assert SECRET not in " ".join(masked)
            assert MASK in masked[-2]
            assert (masked[:2], masked[-1]) == (line[:2], line[-1])


def test_a_variant_without_a_secret_stays_as_it_is() -> None:
    line = ["ab", "x", "--a", "", "--b", "-u  4 -f 'my file'", "--a=-k"]
    assert mask(line) == line
    assert mask(["ab", "--a", "-u '"]) == ["ab", "--a", MASK]


def test_every_field_hidden_from_repr_is_a_secret_option() -> None:
    assert {*LoginOptions.HIDDEN} == {o.name for o in SECRETS}


@pytest.mark.parametrize("flag", ["--os-pass", "--os_passwor", "--ke", "--os-application-cred"])
def test_abbreviated_secret_options_are_masked(flag: str) -> None:
    assert mask([f"{flag}={SECRET}", "x"]) == [f"{flag}={MASK}", "x"]
    assert mask([flag, SECRET, "x"]) == [flag, MASK, "x"]


def test_a_user_in_a_url_is_masked() -> None:
    assert mask(["-A", f"http://me:{SECRET}@h/v1", f"--os-auth-url=https://me:{SECRET}@h"]) == [
        "-A", f"http://{MASK}@h/v1", f"--os-auth-url=https://{MASK}@h",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "run-scenario -f small -u 4 -A http://h/auth -U test:tester -s a.gz --retries 3 -k -q",
        "run-scenario --os-key file.pem --os-cert c.pem --auth-version 3 --zmq-key-file f -- x",
        "cleanup-containers -b base --yes -",
    ],
)
def test_other_arguments_are_not_masked(line: str) -> None:
    assert mask(line.split()) == line.split()


SHOW = """\
import pathlib, sys
import ssbench.cli.proctitle
ssbench.cli.proctitle.hide_secrets()
for name in ("cmdline", "comm", "environ"):
    print(pathlib.Path(f"/proc/self/{name}").read_bytes())
"""


def shown(*words: str) -> list[str]:
    """Command line, name and environment of a process, as the system has them."""
    done = subprocess.run(
        [sys.executable, "-c", SHOW, *words], check=True, capture_output=True, text=True,
        cwd=ROOT, timeout=60, env={"MARK": "here"},
    )  # fmt: skip
    return done.stdout.splitlines()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_the_process_list_shows_the_masked_command_line() -> None:
    secret, plain = shown("-K", SECRET, "-f", "x"), shown("-f", "x")
    assert SECRET not in "".join(secret)
    assert f"-K {MASK} -f x" in secret[0]
    assert secret[1] == plain[1], "pgrep would not find it by its name"
    # Without a secret nothing is touched.
    assert r"\x00-f\x00x\x00" in plain[0]
    assert "MARK=here" in plain[2]


def test_passwords_of_nectar_are_masked() -> None:
    line = ["ssbench-master", "nectar", "-U", "me", "-P", SECRET, f"-P={SECRET}", "-K", SECRET]
    assert SECRET not in " ".join(mask(line))
    assert mask(line)[:4] == line[:4]
    for name in ("--P", "--K", "---P"):  # the parser takes them, as Go's does
        for words in ([name, SECRET], [f"{name}={SECRET}"]):
            assert SECRET not in " ".join(mask(["nectar", "-U", "me", *words, "bench-get", "c"]))
    assert mask(["nectar", "-continue-on-error", "bench-put", "c"])[1:] == [
        "-continue-on-error", "bench-put", "c",
    ]  # fmt: skip
