"""The options and settings of the ``file`` store, and what data path and admin share."""

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from ssbench.core import option as types
from ssbench.core import units
from ssbench.core.errors import AuthError, RejectedError, UsageError
from ssbench.core.option import of_field, options_of_fields
from ssbench.core.settings import Credentials, StorageSettings, typed
from ssbench.storage.base import Access
from ssbench.storage.options import StoreOptions, option_values

if TYPE_CHECKING:
    from ssbench.storage.filetree import FileTree

_IN_MEMORY = ("tmpfs", "ramfs")

_of = partial(of_field, group="file store", default=None)


class FileSettings(Struct, frozen=True):
    """The typed settings of the ``file`` store; ``StorageSettings.store`` as a map."""

    # fmt: off
    path: Annotated[str,  # absolute
        _of("--path", types.path,
            text="the directory; containers are folders in it", metavar="DIR")] = ""
    io_buffer: Annotated[int,
        _of("--io-buffer", units.size,
            text="size of the largest read or write, in bytes or with a unit [default: 1MiB]",
            metavar="SIZE")] = 1 << 20
    fsync: Annotated[bool,
        _of("--fsync", bool,
            text="call fsync on each file after writing it, and on each folder after changing "
            "it")] = False
    direct: Annotated[bool,
        _of("--direct", bool, text="bypass the page cache (O_DIRECT)")] = False
    page_cache: Annotated[str,
        _of("--page-cache", str,
            text="drop: each READ first drops the file's cached pages; keep: reads may come from "
            "memory; drop-all: as drop, and drop all caches of the workers' hosts before each "
            "phase (root) [default: drop]", choices=("drop", "keep", "drop-all"))] = "drop"
    session: str = ""  #: that the directory's marker must have; "": no worker is on another host
    # fmt: on


OPTIONS = options_of_fields(FileSettings)


class FileClient:
    """What data path and admin have: settings, and the directory.

    :raises UsageError: the directory can't be used, or the run needs a storage policy.
    """

    concurrency: Literal["greenlets", "threads"] = "threads"

    def __init__(self, settings: StorageSettings) -> None:
        if settings.placement is not None:
            raise UsageError(
                f"policy {settings.placement!r}: the file store has no storage policies"
            )
        from ssbench.storage.filetree import FileTree  # the table of options needs none

        self._own = typed(FileSettings, settings.store)
        self._serial = settings.newest.serial
        self._tree = FileTree(self._own.path)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._own.path}>"

    def set_credentials(self, credentials: Credentials) -> None:
        self._serial = credentials.serial

    @property
    def credentials_serial(self) -> int:
        return self._serial

    def close(self) -> None:
        self._tree.close()


class FileAccess:
    """The credentials provider of a store without credentials: checks the directory.

    :raises UsageError: the directory can't be used as the options say.
    """

    where = ""

    def __init__(self, options: StoreOptions) -> None:
        from ssbench.storage.filetree import FileTree, ThreadBuffer

        values = option_values(OPTIONS, options)
        if not values.get("path"):
            raise UsageError("the file store needs a directory: --path DIR")
        values["path"] = os.path.abspath(values["path"])
        settings = typed(FileSettings, values)
        ThreadBuffer(settings.io_buffer)  # not only in the workers
        notes = self._check(settings, FileTree(settings.path))
        self.notes: Sequence[str] = notes if options.measures else ()
        if options.remote_workers:
            settings = replace(settings, session=os.urandom(8).hex())
        self._settings = settings

    def _check(self, settings: FileSettings, tree: "FileTree") -> list[str]:
        notes = []
        kind = tree.file_system()
        if settings.page_cache == "drop-all":
            from ssbench.storage.filetree import drop_all_caches

            drop_all_caches()
        if settings.direct:
            block = tree.direct_alignment()
            if settings.io_buffer % block:
                raise UsageError(
                    f"--io-buffer {settings.io_buffer}: with --direct, a multiple of {block}"
                )
            notes.append(
                f"--direct: reads and writes are multiples of {block} bytes; what a file has beyond"
                " its last whole block is written through the page cache"
            )
        elif kind in _IN_MEMORY:
            notes.append(
                f"{settings.path} is in memory ({kind}): its page cache can't be dropped, and no"
                " disk is measured"
            )
        elif settings.page_cache != "keep" and not settings.fsync:
            notes.append(
                "data that the kernel has not written to the disk yet is read from memory; use"
                " --fsync or --direct to measure the disk"
            )
        if not tree.has_attributes():
            notes.append(
                f"{settings.path} ({kind or 'its file system'}) has no extended attributes: POST"
                " fails, and each run uploads its initial objects again"
            )
        return notes

    def log_in(self) -> Access:
        session = self._settings.session
        if session:
            from ssbench.storage.filetree import FileTree

            try:
                FileTree(self._settings.path).announce(session)
            except OSError as error:
                raise AuthError(
                    f"{self._settings.path}: {error.strerror}: workers on other hosts could not"
                    " prove that they see this directory; use --workers alone, for workers on this"
                    " host"
                ) from error
        return Access(asdict(self._settings), Credentials(1))

    def renew(self) -> Credentials:
        raise RejectedError("the file store has no credentials to renew")
