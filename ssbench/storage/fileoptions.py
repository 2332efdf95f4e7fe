"""Options of the ``file`` store."""

from __future__ import annotations

from ssbench.core import option as types
from ssbench.core.option import Option

OPTIONS = (
    Option(
        ("--path",),
        "path",
        types.path,
        group="file store",
        help="the directory; containers are folders in it",
        metavar="DIR",
    ),
    Option(
        ("--io-buffer",),
        "io_buffer",
        types.size,
        group="file store",
        help="size of the largest read or write, in bytes or with a unit [default: 1MiB]",
        metavar="SIZE",
    ),
    Option(
        ("--fsync",),
        "fsync",
        bool,
        group="file store",
        help="call fsync on each file after writing it, and on each folder after changing it",
    ),
    Option(
        ("--direct",),
        "direct",
        bool,
        group="file store",
        help="bypass the page cache (O_DIRECT)",
    ),
    Option(
        ("--page-cache",),
        "page_cache",
        choices=("drop", "keep", "drop-all"),
        group="file store",
        help="drop: each READ first drops the file's cached pages; keep: reads may come from"
        " memory; drop-all: as drop, and drop all caches of the workers' hosts before each phase"
        " (root) [default: drop]",
    ),
)
