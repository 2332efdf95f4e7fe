"""What a worker must know to reach the store: it travels in every beat, the token included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ssbench.core.model import SizeClass


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """Settings of a driver for one run. ``token`` is the only secret; no repr shows it."""

    driver: str = "swift"  #: a key of storage.DRIVERS, or "package.module:Class"
    storage_urls: tuple[str, ...] = ()
    token: str = field(default="", repr=False)
    token_serial: int = 0  #: grows with each renewal
    run_id: str = ""
    worker_id: str = ""  #: who asks, for the store's logs; filled in by each worker
    sizes: tuple[SizeClass, ...] = ()
    container_base: str = "ssbench"
    container_count: int = 100
    policy: str | None = None
    delete_after_s: int | None = None
    block_size: int = 65536
    connect_timeout_s: float = 10.0
    network_timeout_s: float = 20.0
    insecure: bool = False
    cacert_pem: str = ""  #: text of a CA bundle, "" for the system's
    cert_path: str = ""  #: client certificate and key: paths on the worker's own host
    cert_key_path: str = ""
    compressible: bool = False  #: bodies of one repeated letter, as ssbench 0.3.9 sent
    verify: bool = False  #: check what is read

    def to_map(self) -> dict[str, Any]:
        """A msgpack-able map, secrets included: for the wire only."""
        return asdict(self)

    @classmethod
    def from_map(cls, values: Mapping[str, Any]) -> StorageSettings:
        """The inverse of ``to_map``; unknown keys are ignored.

        :raises TypeError, ValueError, KeyError: for a malformed map.
        """
        known = {f.name: values[f.name] for f in fields(cls) if f.name in values}
        known["storage_urls"] = tuple(known.get("storage_urls", ()))
        known["sizes"] = tuple(
            SizeClass(
                size["name"],
                size["size_min"],
                size["size_max"],
                tuple((operation, share) for operation, share in size["profile"]),
                size["initial_files"],
            )
            for size in known.get("sizes", ())
        )
        return cls(**known)
