"""Where a master is reached: its address and its three ports."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from ssbench.core.errors import SsbenchError


class TransportError(SsbenchError):
    """A socket that can't be had: an address in use, a host without a name."""


@dataclass(frozen=True)
class Ports:
    """The master's three ports."""

    work: int = 13579
    results: int = 13580
    control: int = 13581


def resolve(host: str) -> str:
    """The IP address of a host; names that have both kinds give IPv4.

    :raises TransportError: for a name without an address.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise TransportError(f"{host}: no address is known for this host ({error})") from error
    families = sorted(found, key=lambda entry: entry[0] != socket.AF_INET)
    return str(families[0][4][0])


def endpoint(ip: str, port: int | str) -> str:
    """As ZeroMQ wants it."""
    return f"tcp://[{ip}]:{port}" if ":" in ip else f"tcp://{ip}:{port}"
