"""The commands of ``bench`` on numbered objects, and those on real files: what each does.

One table for the command line, the runner and the CSV files. It imports little, for a quick start.
"""

from __future__ import annotations

from msgspec import Struct

from ssbench.core.operations import CREATE, DELETE, HEAD, POST, READ, Body, Effect, Operation


class Method(Struct, frozen=True):
    """A command. What it needs and prints follows from its operations.

    :param operations: each with users of its own.
    """

    name: str  #: behind ``bench``
    operations: tuple[Operation, ...]
    summary: str

    @property
    def is_mixed(self) -> bool:
        """Whether there are several operations."""
        return len(self.operations) > 1

    @property
    def uploads(self) -> bool:
        """Whether it creates objects."""
        return any(row.effect is Effect.CREATES for row in self.operations)

    @property
    def removes(self) -> bool:
        return any(row.effect is Effect.REMOVES for row in self.operations)

    @property
    def reads(self) -> bool:
        """Whether it changes nothing, so that the response's headers are worth a column."""
        return all(row.effect is Effect.NONE for row in self.operations)

    @property
    def receives(self) -> bool:
        """Whether it does nothing but receive contents, which can be verified."""
        return all(row.body is Body.RECEIVED for row in self.operations)

    @property
    def columns(self) -> list[str]:
        """Of its numbers over time: none where there is one operation."""
        return sorted(row.alias or row.name for row in self.operations) if self.is_mixed else []


METHODS = {
    each.name: each
    for each in (
        Method("put", (CREATE,), "upload numbered objects"),
        Method("get", (READ,), "read numbered objects"),
        Method("head", (HEAD,), "send a HEAD for each numbered object"),
        Method("post", (POST,), "replace the metadata of each numbered object"),
        Method(
            "delete", (DELETE,), "delete numbered objects, and the containers that this empties"
        ),
        Method(
            "mixed",
            (CREATE, POST, READ, HEAD, DELETE),
            "upload, change, read and delete objects, all at once",
        ),
    )
}
MIXED = METHODS["mixed"]
#: Those that ``bench suite`` runs twice, in their order.
REPEATED = tuple(METHODS[name] for name in ("put", "get", "delete"))
#: Command on real files -> its operation.
TRANSFERS = {"upload": CREATE, "download": READ}
