"""Options of the commands that access a store."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ssbench.cli.auth_options import add_auth_options, credentials_from
from ssbench.core import option as types
from ssbench.core.errors import UsageError

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


def add_store(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("store")
    add = group.add_argument
    add(
        "-S",
        "--storage-url",
        action="append",
        dest="storage_urls",
        type=http_url,
        metavar="STORAGE_URL",
        help="use this storage URL instead of the one that the login returns; may be repeated: "
        "each request uses one at random",
    )
    add(
        "--connect-timeout",
        type=types.seconds,
        default=10.0,
        metavar="SECONDS",
        help="longest wait for a connection",
    )
    add(
        "--network-timeout",
        type=types.seconds,
        default=20.0,
        metavar="SECONDS",
        help="idle timeout of a connection",
    )
    add_auth_options(parser)  # fmt: skip


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


def http_url(text: str) -> str:
    """An http or https URL without a password in it."""
    from ssbench.core.credentials import check_http_url

    try:
        return check_http_url(text, "the URL")
    except UsageError as e:
        raise UsageError(str(e)) from e
