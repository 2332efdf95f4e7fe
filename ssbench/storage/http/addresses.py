"""The addresses of a store that speaks HTTP: storage URLs, their connection pools, and TLS."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from ssbench.core.errors import StorageError, UsageError
from ssbench.core.model import ErrorKind
from ssbench.core.naming import has_dot_segment
from ssbench.core.settings import StorageSettings
from ssbench.core.text import printable
from ssbench.storage.http.dial import Dialler, Endpoint
from ssbench.storage.http.pool import ConnectionPool, Sign, no_signature
from ssbench.storage.options import HttpSettings, client_context

_PORTS = {"http": 80, "https": 443}
#: The zone of an IPv6 address: it names an interface of our host, so it isn't sent.
_ZONE = re.compile(r"%[^\]]*(?=\])")


class StorageUrl(NamedTuple):
    """The parts of a storage URL."""

    endpoint: Endpoint
    netloc: str  #: for the Host header
    base: str  #: ``/v1/AUTH_test/``


def parse_storage_url(url: str) -> StorageUrl:
    """Parse a storage URL.

    :raises UsageError: the URL is invalid, or contains a user or password.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"storage URL {url!r}: {error}") from error
    if "@" in parts.netloc:
        raise UsageError(f"storage URL of {host}: it must not contain a user or password")
    if parts.scheme not in _PORTS or not host:
        raise UsageError(f"storage URL {url!r}: expected the form https://host:port/v1/AUTH_name")
    path = quote(parts.path.rstrip("/"), safe="/%:~")
    return StorageUrl(
        # RFC 6874 writes fe80::1%eth0 as fe80::1%25eth0 in a URL.
        Endpoint(host.replace("%25", "%"), port or _PORTS[parts.scheme], parts.scheme == "https"),
        without_zone(parts.netloc),
        f"{path}/",
    )


def without_zone(netloc: str) -> str:
    """As it is sent."""
    return _ZONE.sub("", netloc)


def open_pools(
    http: HttpSettings,
    settings: StorageSettings,
    sites: Sequence[StorageUrl],
    signs: Sequence[Sign] = (),
) -> list[ConnectionPool]:
    """One connection pool per storage URL; they share one TLS context.

    :param signs: one per storage URL; empty: requests are not signed.
    """
    context = client_context(http) if any(site.endpoint.tls for site in sites) else None
    return [
        ConnectionPool(
            Dialler(
                site.endpoint,
                settings.connect_timeout_s,
                context if site.endpoint.tls else None,
                settings.source_addresses,
            ),
            settings.network_timeout_s,
            index,
            keep_alive=settings.keep_alive,
            sign=signs[index] if signs else no_signature,
        )
        for index, site in enumerate(sites)
    ]


def quoted_name(name: str, safe: str = "") -> str:
    """Quote an arbitrary name for a URL path.

    :param safe: characters that stay as they are.
    :raises StorageError: the name has a dot segment, which a server could resolve; or it is empty:
        the path would be that of what holds it.
    """
    if not name:
        raise StorageError(ErrorKind.PROTOCOL, "not sent: an empty name", sent=False)
    if has_dot_segment(name):
        raise StorageError(
            ErrorKind.PROTOCOL,
            f'not sent: "{printable(name)}" has a segment "." or "..", and might be taken for'
            " another path",
            sent=False,
        )
    return quote(name, safe=safe)
