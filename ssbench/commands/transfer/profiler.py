"""``profiler ARGS``: a command line of Swift Profiler as one of ``upload``.

Its credentials come from the file ``.env`` in the current directory, with or without ``export``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from ssbench.cli.console import tell
from ssbench.commands.go_flags import TRUE, check_values, own_words, parse_flags
from ssbench.commands.transfer.settings import UPLOAD
from ssbench.core.errors import UsageError
from ssbench.host.files import read_text

COMMAND = "profiler"
_ENV_FILE = ".env"
_OPTIONS = {
    "concurrency": "-u", "input-dir": "", "dest-prefix": "--container", "num-files": "--num-files",
    "precompute-checksum": "", "verify-checksum": "",
}  # fmt: skip
_SWITCHES = ("precompute-checksum", "verify-checksum")
_DEFAULTS = {"concurrency": "16", "dest-prefix": "benchmark-test"}
_FALSE = ("0", "f", "false")
#: Names of Go's Swift library -> those of the swift command, for version 1 and for Keystone.
_GO_NAMES = {
    "SWIFT_AUTH_URL": ("ST_AUTH", "OS_AUTH_URL"),
    "SWIFT_API_USER": ("ST_USER", "OS_USERNAME"),
    "SWIFT_API_KEY": ("ST_KEY", "OS_PASSWORD"),
    "SWIFT_TENANT": ("", "OS_PROJECT_NAME"),
    "SWIFT_REGION_NAME": ("", "OS_REGION_NAME"),
}
_DOMAINS = ("OS_USER_DOMAIN_NAME", "OS_PROJECT_DOMAIN_NAME")
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*)")
_QUOTED = re.compile(r"(['\"])(.*?)\1\s*(?:#.*)?")


def translate(words: Sequence[str], environ: MutableMapping[str, str]) -> list[str]:
    """As ``upload_words``; adds the variables of ``.env`` to the environment.

    :raises UsageError: as ``upload_words`` and ``env_file``.
    """
    found = upload_words(words)
    environ.update(env_file(Path(_ENV_FILE), environ))
    tell("Port 6060 is not opened; --profile reports where CPU time goes")
    return found


def upload_words(words: Sequence[str]) -> list[str]:
    """The command line of ``upload`` for Swift Profiler's.

    Words with two dashes that Swift Profiler does not know go to ``upload`` as they are.

    :raises UsageError: Swift Profiler would not accept it.
    """
    own, rest = own_words(words, _OPTIONS, _SWITCHES)
    given, more = parse_flags(rest, _OPTIONS, _SWITCHES, COMMAND)
    if more:
        raise UsageError(f"{COMMAND}: unexpected argument: {more[0]}")
    check_values(given, _OPTIONS, UPLOAD, COMMAND)
    values = {**_DEFAULTS, **{name: each[-1] for name, each in given.items()}}
    if not values.get("input-dir"):
        raise UsageError(f"{COMMAND}: give the folder of the files with -input-dir=DIR")
    checksum = "store"
    if not _switch(values, "verify-checksum"):
        checksum = "none"
    elif _switch(values, "precompute-checksum"):
        checksum = "precompute"
    found = ["upload", "--as-profiler", "--checksum", checksum]
    for name, option in _OPTIONS.items():
        if option and name in values:
            found += [option, values[name]]
    return [*found, *own, "--", values["input-dir"]]


def _switch(values: Mapping[str, str], name: str) -> bool:
    text = values.get(name, "true").lower()
    if text not in (*TRUE, *_FALSE):
        raise UsageError(f"{COMMAND}: -{name}: give true or false")
    return text in TRUE


def env_file(path: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of a .env file that the environment does not have, by the names of the swift
    command; {} if there is no such file.

    :raises UsageError: it can't be read, or a line is malformed. No value is shown.
    """
    if not path.exists():
        return {}
    found = {}
    for number, line in enumerate(map(str.strip, read_text(path).splitlines()), start=1):
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise UsageError(f"{path}: line {number}: give NAME=value, or export NAME=value")
        quoted = _QUOTED.fullmatch(match[2])
        found[match[1]] = quoted[2] if quoted else re.split(r"\s+#", match[2])[0].strip()
    named = _by_swift_names(found)
    return {name: value for name, value in named.items() if value and name not in environ}


def _by_swift_names(values: Mapping[str, str]) -> dict[str, str]:
    try:
        path = urlsplit(values.get("SWIFT_AUTH_URL", "")).path.split("/")
    except ValueError:
        path = []  # the login reports what is wrong with it
    is_keystone = not {"v3", "v2.0", "v2"}.isdisjoint(path)
    found = {}
    for name, value in values.items():
        names: Sequence[str] = [name]
        if name in _GO_NAMES:
            names = [_GO_NAMES[name][is_keystone]]
        elif name == "SWIFT_API_DOMAIN":
            names = _DOMAINS
        # Workers would inherit anything else.
        found.update({each: value for each in names if each.startswith(("ST_", "OS_"))})
    return found
