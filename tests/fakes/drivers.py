"""Settings of drivers under test, and both halves of a driver as one object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ssbench.core.content import SyntheticSource
from ssbench.core.settings import Credentials, StorageSettings
from ssbench.storage.options import HttpSettings
from ssbench.storage.registry import open_admin, open_store

_HTTP = set(HttpSettings.__struct_fields__)


def with_token(token: str, serial: int = 0) -> Credentials:
    return Credentials(serial, None, {"token": token})


def driver_settings(token: str = "", serial: int = 0, **values: Any) -> StorageSettings:
    """StorageSettings with a token; HttpSettings' fields are the store's."""
    store = {name: values.pop(name) for name in _HTTP & values.keys()}
    return StorageSettings(
        **{"store": store, "credentials": (with_token(token, serial),), **values}
    )


class WholeDriver:
    """What the hot half doesn't have is the cold half's."""

    def __init__(self, settings: StorageSettings) -> None:
        self.hot = open_store(settings)
        self.cold = open_admin(settings)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.hot if hasattr(self.hot, name) else self.cold, name)

    def __repr__(self) -> str:
        return f"{self.hot!r} {self.cold!r}"

    def set_credentials(self, credentials: Credentials) -> None:
        self.hot.set_credentials(credentials)
        self.cold.set_credentials(credentials)

    def close(self) -> None:
        self.hot.close()
        self.cold.close()


def pieces(
    name: bytes, version: int, size: int, block_size: int, *, compressible: bool = False
) -> Iterator[memoryview]:
    """The content of one object."""
    return SyntheticSource(block_size, compressible=compressible).pieces(name, version, size)
