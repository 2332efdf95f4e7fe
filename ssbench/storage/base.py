"""The contract that every driver keeps. One contract test (tests/contract) runs against each.

A driver belongs to one thread and its gevent hub; many greenlets (the users) call it at once.
It never retries: that is the worker's decision. The one thing that it repeats by itself is a
request on a kept connection that the server had closed while idle; it counts that in
``Timing.reconnects``, or in ``StorageError.reconnects`` where the repeated request fails as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ssbench.core.model import Job, Timing

#: ``action(job, deadline_ns)``: do it, before the deadline of perf_counter_ns (0: none).
#: Returns the Timing of the answer, or raises StorageError; never anything else.
Action = Callable[[Job, int], Timing]


@dataclass(frozen=True, slots=True)
class ContainerEntry:
    """A line of an account's listing."""

    name: str
    object_count: int
    bytes_used: int


class ObjectEntry(NamedTuple):
    """A line of a container's listing."""

    name: str
    size: int  #: bytes


@dataclass(frozen=True, slots=True)
class ContainerInfo:
    """What a store says of a container."""

    policy: str | None  #: its storage policy; None where the store doesn't say
    marked: bool  #: it carries our marker header: ssbench made it, or found it empty
    object_count: int | None  #: None where the store doesn't say


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """What the store says of itself (Swift: /info); None where it doesn't say."""

    max_object_size: int | None = None
    max_object_name_length: int | None = None  #: bytes of UTF-8
    max_container_name_length: int | None = None
    listing_limit: int | None = None
    policies: Sequence[str] | None = None  #: storage policies, aliases included
    bulk_delete_max: int | None = None  #: names a request; None where there is no bulk delete
    raw: Mapping[str, object] = field(default_factory=dict)


class Storage(Protocol):
    """Operations on the benchmark's objects (hot), and the errands around a run (cold).

    Every method may raise StorageError. Here a container is a Swift container. A name with a
    segment ``.`` or ``..`` is never sent: it might be taken for another path.
    """

    #: Operation number -> what does it. Operations that are missing are not supported.
    actions: Mapping[int, Action]

    def connect(self, count: int) -> None:
        """Open up to ``count`` connections to every storage URL now, so that no latency has to.

        What can't be connected is left to the first operation; nothing is raised.
        """

    def set_token(self, token: str, serial: int) -> None:
        """Use this token from the next request on."""

    @property
    def token_serial(self) -> int:
        """The serial of the token in use."""

    def limits(self) -> StoreLimits:
        """Ask the store for its limits; all None where it has no such thing."""

    def container_info(self, container: str) -> ContainerInfo:
        """Of a container that exists.

        :raises StorageError: status 404 where it doesn't exist.
        """

    def make_container(
        self, container: str, changing: Callable[[], None] | None = None
    ) -> ContainerInfo | None:
        """Make a container with our marker header and the settings' policy.

        ``changing`` is called before a request is sent that changes the store; what it raises
        ends the call.

        None where it was made, else the facts of the one that was there: where it is empty it got
        our marker, else it is left as it is. One that is there under another policy raises
        StorageError with status 409.
        """

    def list_containers(self, prefix: str, marker: str, limit: int) -> list[ContainerEntry]:
        """One page of the account's listing, in order, after ``marker``."""

    def list_objects(self, container: str, marker: str, limit: int) -> list[ObjectEntry]:
        """One page of a container's objects, in order, after ``marker``."""

    def object_run_id(self, container: str, name: str) -> str | None:
        """The id of the run that uploaded an object; None where the object has none on it.

        :raises StorageError: status 404 where it doesn't exist.
        """

    def delete_object(self, container: str, name: str) -> bool:
        """True where it was deleted, False where there was none."""

    def bulk_delete(self, container: str, names: Sequence[str]) -> list[tuple[str, int]]:
        """Delete many at once; gives (name, status) of those that neither went nor were absent."""

    def delete_container(self, container: str) -> bool:
        """True where it was deleted, False where there was none.

        :raises StorageError: status 409 where it isn't empty.
        """

    def close(self) -> None:
        """Close every connection. Operations in flight fail with ErrorKind.RESET."""
