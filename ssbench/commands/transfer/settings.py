"""Settings of ``upload`` and ``download``: each with its option."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Struct

from ssbench.cli.options import (
    ERRORS,
    HOW,
    OWN_FILE,
    STORE_OPTIONS,
    THRESHOLD,
    WORKER_COUNTS,
    of_run,
    only,
    swept,
    without,
)
from ssbench.core import option as types
from ssbench.core import units
from ssbench.core.errors import UsageError
from ssbench.core.naming import has_dot_segment
from ssbench.core.option import RESULTS, WHAT, of_field, options_of_fields, row
from ssbench.core.scenario.values import container_option
from ssbench.runner.config import RunConfig
from ssbench.runner.methods import TRANSFERS

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
        of_field("--num-files", units.count, WHAT, "only so many, the first by name",
            brief="only so many files")] = None
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
        return int(TRANSFERS[self.name])

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
    row("--progress", "progress", str, RESULTS,
        "live: a bar for all files, and one for each that takes long; without a terminal a line "
        "every few seconds. Or none", default="live", choices=("live", "none")),
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
