"""Settings of ``upload`` and ``download``, each with its option; and Swift Profiler's command line,
which becomes one of ``upload``.
"""

import re
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from ssbench.cli.console import tell
from ssbench.cli.options import (
    ERRORS,
    HOW,
    OWN_FILE,
    PROGRESS,
    STORE_OPTIONS,
    THRESHOLD,
    WORKER_COUNTS,
    of_run,
    only,
    swept,
    without,
)
from ssbench.cli.parser import TRUE, check_values, own_words, parse_flags
from ssbench.core import option as types
from ssbench.core import units
from ssbench.core.errors import UsageError
from ssbench.core.naming import has_dot_segment
from ssbench.core.operations import CREATE, READ
from ssbench.core.option import WHAT, of_field, options_of_fields, row
from ssbench.core.scenario.values import container_option
from ssbench.host.files import read_found
from ssbench.runner.config import RunConfig

STORE, PRECOMPUTE, NONE = CHECKSUMS = ("store", "precompute", "none")


def users_sweep(text: str) -> list[int]:
    """``users=16,32``."""
    return [units.count.of_text(each) for each in swept(text, ("users",), "users=16,32")[1]]


def transfer_place(text: str) -> tuple[str, str]:
    """``CONTAINER`` or ``CONTAINER/FOLDER``."""
    container, _, folder = text.partition("/")
    if not container:
        raise UsageError(f"{text!r}: give a container, or CONTAINER/FOLDER")
    return container, folder.strip("/")


# fmt: off
class TransferConfig(Struct, frozen=True, kw_only=True):
    """Runs on the files of a folder, or on the objects of a container.

    :param folder: the files to upload; of a download, files to compare with, or None.
    :param prefix: folder that objects' names begin with; "": none.
    :param checksums: a run for each of them, of CHECKSUMS; of a download, none.
    :param users: and for each number of users.
    :param run: its scenario is ignored.
    :raises UsageError: values that exclude each other.
    """

    folder: str | None
    container: str
    prefix: str = ""
    checksums: Sequence[str] = ()
    users: Sequence[int] = (16,)
    limit: Annotated[int | None,
        of_field("--num-files", units.count, WHAT, "number of files, the first by name",
            brief="number of files")] = None
    #: None: the same path.
    worker_folder: Annotated[str | None,
        of_field("--worker-dir", types.path, WHAT,
            "where workers find the folder, if not at the same path", metavar="DIR")] = None
    overwrite: Annotated[bool,
        of_field("--overwrite", bool, WHAT,
            "also replace objects in a container that ssbench did not make",
            command_line_only=True)] = False
    run: RunConfig
    # fmt: on

    def __post_init__(self) -> None:
        container_option("--container", self.container)
        if has_dot_segment(self.container) or has_dot_segment(self.prefix):
            raise UsageError('--container: no segment may be "." or ".."')

    @property
    def name(self) -> str:
        """Of the runs."""
        return "upload" if self.checksums else "download"

    @property
    def operation(self) -> int:
        """Of all its jobs."""
        return int(CREATE if self.checksums else READ)

    @property
    def before_names(self) -> str:
        """What the objects' names have in front of those of files."""
        return f"{self.prefix}/" if self.prefix else ""


# fmt: off
_OWN = options_of_fields(TransferConfig)
_BOTH = (
    row("--container", "place", transfer_place, WHAT,
        "the container, and a folder in it that the objects' names begin with",
        metavar="CONTAINER[/FOLDER]", required=True, brief="the container"),
    row("-u --user-count --users", "users", units.count, WHAT,
        "concurrent users, each with one file", default=16, brief="concurrent users, 16"),
    row("--sweep", "sweep", users_sweep, WHAT, "run once for each number of users, and print a "
        "table", metavar="users=N,N", brief="run once for each number of users"),
    *only(_OWN, "limit"),
    of_run("bandwidth", group=WHAT,
           help="limit on the bytes per second of all users together, such as 100MB [default: no "
           "limit]"),
)
_RUN = (
    *only(HOW, "operation_timeout_s", "drain_timeout_s", "retries"), *ERRORS, *OWN_FILE,
    replace(PROGRESS, choices=("live", "none"),
        help="live: a bar for all files, and one for each that takes long; without a terminal a "
        "line every few seconds. Or none"),
    THRESHOLD, *WORKER_COUNTS, *STORE_OPTIONS,
)
UPLOAD = (
    row("", "folder", types.path, "", "the folder of the files", required=True, metavar="DIR",
        brief="the folder of the files"),
    *_BOTH,
    row("--checksum", "checksum", str, WHAT,
        "store: compute the MD5 while sending, and compare it with that of the response; "
        "precompute: compute it before the clock starts, and have the store refuse any other; none "
        "[default: store; none if the store has no checksums]",
        choices=CHECKSUMS, exclusive="checksum", metavar="WHEN",
        brief="store, precompute or none"),
    row("--compare", "compare", bool, WHAT,
        "run with each kind of checksum, and print them side by side", default=False,
        exclusive="checksum"),
    *without(_OWN, "limit"),
    of_run("policy", help="storage policy of the containers"),
    # The output of the seed's profiler.
    row("--as-profiler", "as_profiler", bool, "", "", default=False),
    *_RUN,
)
DOWNLOAD = (
    *_BOTH,
    row("--verify", "folder", str, WHAT, "compare the MD5 of each object with that of the file of "
        "its name in this folder", metavar="DIR", brief="compare with the files of this folder",
        file="d"),
    *_RUN,
)
# fmt: on


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
    for number, line in enumerate(map(str.strip, read_found(path).splitlines()), start=1):
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
