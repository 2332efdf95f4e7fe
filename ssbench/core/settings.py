"""Storage settings that a worker needs. Every control state carries them, with the token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ssbench.core.model import SizeClass


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """Settings of a driver for one run. ``token`` is the only secret; the repr omits it."""

    driver: str = "swift"  #: a key of storage.DRIVERS, or "package.module:Class"
    storage_urls: tuple[str, ...] = ()
    token: str = field(default="", repr=False)
    token_serial: int = 0  #: grows with each renewal
    run_id: str = ""
    worker_id: str = ""  #: for the store's logs; each worker fills it in
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
    compressible: bool = False  #: bodies of one repeated letter, as in ssbench 0.3.9
    verify: bool = False  #: check the content of reads

    def to_map(self) -> dict[str, Any]:
        """A map that msgpack can encode, secrets included: only for messages."""
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
