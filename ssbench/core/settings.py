"""What a worker needs to open the store of a run. Every control state carries it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from msgspec import Struct, ValidationError, convert, to_builtins
from msgspec.structs import replace

from ssbench.core import boundary
from ssbench.core.hiding import Hiding
from ssbench.core.model import ContentMix, InitialHeaders, LargeObject, SizeClass

T = TypeVar("T")

#: How the storage URL of a request is chosen.
URL_CHOICES = ("random", "round-robin", "least-busy")
LISTED_MAX = 200_000_000  #: hours of requests; memory is that of a page


class Credentials(Hiding, frozen=True):
    """Access to a store, as workers may hold it: a token, a signing key, never the password.

    Only the driver and its credentials provider know what the payload is.
    """

    HIDDEN = ("payload",)

    serial: int = 0  #: grows with each renewal
    expires_at: float | None = None  #: Unix time; None: not known
    payload: Mapping[str, Any] = {}  #: secret


class StorageSettings(Hiding, frozen=True):
    """Settings of one run for any store. Only ``credentials`` are secret; the repr omits them.

    ``store`` is for the driver alone: its own typed settings as a map (see ``typed``).
    """

    HIDDEN = ("credentials",)

    driver: str = "swift"  #: name of a row of storage.registry, or "package.module:Class"
    run_id: str = ""
    worker_id: str = ""  #: for the store's logs; each worker fills it in
    sizes: tuple[SizeClass, ...] = ()
    container_base: str = "ssbench"
    container_count: int = 100
    placement: str | None = None  #: of containers (Swift: the storage policy); None: the default
    delete_after_s: int | None = None
    block_size: int = 65536
    connect_timeout_s: float = 10.0
    network_timeout_s: float = 20.0
    compressible: bool = False  #: bodies of one repeated letter, as in ssbench 0.3.9
    mix: ContentMix | None = None  #: bodies that compress in part; None: random bytes
    verify: bool = False  #: check the content of reads
    #: Further request headers: an operation's number, and lines, each with its CRLF.
    headers: tuple[tuple[int, str], ...] = ()
    initial_headers: InitialHeaders = InitialHeaders()
    checksum: str = "none"  #: of uploads, and of reads where the store states it: values.CHECKSUMS
    checksum_in: str = "header"  #: or "trailer"
    bandwidth: int = 0  #: bytes/s of all users of the run phase together; 0: any number
    keep_alive: bool = True  #: use connections for several requests
    expect_continue: bool = False  #: uploads wait for 100 Continue before they send the body
    source_addresses: tuple[str, ...] = ()  #: to connect from, in turn; each worker fills it in
    large_object: LargeObject | None = None  #: objects in parts; None: none
    names: Mapping[str, Any] = {}  #: as core.naming.NAMINGS; {}: by run
    #: Of real files, as storage.directory.FileContents; {}: synthetic (core.content).
    contents: Mapping[str, Any] = {}
    store: Mapping[str, Any] = {}
    #: Those that are valid, the newest last. Before the last but one expire, the last arrive: a
    #: driver that signs by time needs both.
    credentials: tuple[Credentials, ...] = ()
    listed_max: int = LISTED_MAX  #: entries of one listing; beyond these it might never end
    url_choice: str = URL_CHOICES[0]

    @property
    def url_count(self) -> int:
        """How many addresses ``Timing.url`` can be an index of: the store's ``urls``, if any."""
        return len(self.store.get("urls", ())) or 1

    @property
    def exact_names(self) -> bool:
        """Whether names are those that the user or another client gave: a driver must not map them
        to others, as it may do with names that we make."""
        return self.names.get("kind") in ("listed", "numbered")

    def with_exact_names(self) -> StorageSettings:
        """The same, to list what the user or another client named."""
        return replace(self, names={"kind": "listed"})

    @property
    def newest(self) -> Credentials:
        return self.credentials[-1] if self.credentials else Credentials()

    def to_map(self) -> dict[str, Any]:
        """A map that msgpack can encode, secrets included: only for messages."""
        values: dict[str, Any] = to_builtins(self, builtin_types=(bytes,), enc_hook=int)
        return values

    @classmethod
    def from_map(cls, values: Mapping[str, Any]) -> StorageSettings:
        """The inverse of ``to_map``; unknown keys are ignored.

        :raises MessageError: for a malformed map.
        """
        found: StorageSettings = boundary.typed(convert, values, "settings", type=cls)
        return found


def newest_credentials(values: Mapping[str, Any]) -> Credentials | None:
    """The newest credentials in a map of settings; None if there are none, or malformed ones."""
    try:
        return convert(values.get("credentials", ())[-1:], tuple[Credentials])[0]
    except (ValidationError, TypeError):
        return None


def typed(kind: type[T], values: Mapping[str, Any]) -> T:
    """A struct of this kind from a map off the wire: unknown keys are ignored, lists are tuples.

    The settings of a driver outside this repository may also be a dataclass.

    :raises TypeError: a value without a default is missing.
    """
    known: Collection[str] = (
        kind.__struct_fields__ if issubclass(kind, Struct) else kind.__dataclass_fields__  # type: ignore[attr-defined]
    )
    given = {name: value for name, value in dict(values).items() if name in known}
    return kind(**{n: tuple(v) if isinstance(v, list) else v for n, v in given.items()})
