"""The options of ``bench files``, ``gen-files`` and ``diff-dirs``."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Struct
from msgspec.structs import replace

from ssbench.cli.options import only, swept
from ssbench.core import option as types
from ssbench.core import units
from ssbench.core.option import of_field, options_of_fields, row
from ssbench.storage.file.login import OPTIONS as FILE_OPTIONS


def files_sweep(text: str) -> tuple[str, list[int]]:
    """``users=1,20`` or ``files=100,1000``: what is swept, and the values."""
    what, values = swept(text, ("users", "files"), "users=1,20,50 or files=100,1000")
    return what, [units.count.of_text(each) for each in values]


class FilesConfig(Struct, frozen=True, kw_only=True):
    """A series of measurements on a folder that ``gen-files`` made.

    :param users, files: a step for each number of files and each number of users; no files: all.
    :param store: options of the file store, without its path.
    :param seconds: with what is done between the passes.
    """

    # fmt: off
    method: Annotated[str,
        of_field("", str, "",
            "read: read all files, and discard what is read; write: write as many files of these "
            "sizes; copy: read and write them", choices=("read", "write", "copy"),
            metavar="METHOD", required=True, brief="read, write or copy")]
    folder: Annotated[str,
        of_field("", types.path, "", "a folder that gen-files made", metavar="DIR", required=True,
            brief="a folder of files")]
    target: Annotated[str | None,
        of_field("--to", types.path, "",
            "folder to write to; its files stay. By default one beside DIR, which is deleted at "
            "the end", metavar="DIR", brief="folder to write to")] = None
    users: Sequence[int] = (1,)
    files: Sequence[int] = ()
    store: Mapping[str, Any] = {}
    queue: Annotated[int | None,
        of_field("--queue", units.count, "",
            "most files given to a worker at once [default: auto]")] = None
    seconds: Annotated[float,
        of_field("--time", units.seconds, "",
            "repeat each step for at least this time [default: one pass]")] = 0.0
    passes: Annotated[int,
        of_field("--repeat", units.count, "",
            "number of passes over all files in each step")] = 1
    # fmt: on


# fmt: off
_OWN = options_of_fields(FilesConfig)
BENCH_FILES = (
    *only(_OWN, "method", "folder", "target"),
    row("--sweep", "sweeps", files_sweep, "", "numbers of users, such as users=1,20,50, or of "
        "files; a step for each combination. By default one user and all files",
        metavar="WHAT=NUMBERS", repeat=True, brief="as in users=1,20,50 or files=100,1000"),
    row("--buffer", "io_buffer", units.size, "", "size of the largest read or write, in bytes or "
        "with a unit [default: 8k for read, else 4MiB]", metavar="SIZE"),
    *only(_OWN, "queue", "seconds", "passes"),
    *(replace(each, group="") for each in only(FILE_OPTIONS, "fsync", "direct")),
    *(replace(each, group="", default="keep",
              help="drop: drop the cached pages of a file before it is read; drop-all: those of "
              "the host before each step (root); keep: reads may come from memory")
      for each in only(FILE_OPTIONS, "page_cache")),
)
GEN_FILES = (
    *(replace(each, help="a new folder, or an empty one", brief="a new folder, or an empty one",
              file="d") for each in only(_OWN, "folder")),
    row("", "count", units.count, "", "number of files", required=True, brief="number of files"),
    row("", "total", units.size, "", "size of all files; 5G is 5 GiB", metavar="TOTAL",
        required=True, brief="size of all files, as in 5G"),
)
DIFF_DIRS = (
    row("", "first", str, "", "a folder", metavar="A", required=True, brief="a folder", file="d"),
    row("", "second", str, "", "another one", metavar="B", required=True, brief="another one",
        file="d"),
)
# fmt: on
