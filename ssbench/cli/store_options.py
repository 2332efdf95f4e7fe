"""Options of the commands that access a store."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ssbench.cli.auth_options import AUTH_OPTIONS, credentials_from
from ssbench.core import option as types
from ssbench.core.option import Option

if TYPE_CHECKING:
    from ssbench.core.credentials import Credentials


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """How to reach the store.

    :param storage_urls: those of -S; empty: use the one that the login returns.
    """

    credentials: Credentials
    storage_urls: tuple[str, ...]
    connect_timeout_s: float
    network_timeout_s: float


def http_url(text: str) -> str:
    """An http or https URL without a password in it."""
    from ssbench.core.credentials import check_http_url  # lazy: workers do not need it

    return check_http_url(text, "the URL")


STORE_OPTIONS: tuple[Option, ...] = (
    Option(
        ("-S", "--storage-url"),
        "storage_urls",
        http_url,
        None,
        "store",
        "use this storage URL instead of the one that the login returns; may be repeated: "
        "each request uses one at random",
        metavar="STORAGE_URL",
        repeat=True,
    ),
    Option(
        ("--connect-timeout",),
        "connect_timeout",
        types.seconds,
        10.0,
        "store",
        "longest wait for a connection",
        metavar="SECONDS",
    ),
    Option(
        ("--network-timeout",),
        "network_timeout",
        types.seconds,
        20.0,
        "store",
        "idle timeout of a connection",
        metavar="SECONDS",
    ),
    *AUTH_OPTIONS,
)


def store_options(ns: argparse.Namespace, environ: Mapping[str, str]) -> StoreOptions:
    """Store options from a parsed command line and the environment.

    :raises UsageError: as ``credentials_from``.
    """
    return StoreOptions(
        credentials=credentials_from(ns, environ),
        storage_urls=tuple(ns.storage_urls or ()),
        connect_timeout_s=ns.connect_timeout,
        network_timeout_s=ns.network_timeout,
    )
