"""Ports that stay free for who they were found for.

A port that is found free, let go, and used a second later may be somebody else's by then: tests run
beside each other. So it stays bound here, by a socket that doesn't listen: the kernel gives it to
nobody who asks for any port, and lets in who asks for this one, with SO_REUSEADDR as ZeroMQ and
Python's servers do. Who connects before is refused, as by any port where nobody listens.
"""

from __future__ import annotations

import os
import socket
from collections import deque

#: Connections that a server of the tests has not accepted yet. With Python's 5, Linux drops those
#: that come while a busy host holds it up, and their next attempts come 1, 3 and 7 seconds later.
QUEUE_SIZE = 128
#: More than one test asks for; some tests may open few files.
_MOST_HELD = 24

_held: deque[int] = deque()


def held_port(host: str = "127.0.0.1") -> int:
    """A port on which nobody listens; held until enough others were asked for."""
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((host, 0))
    port: int = sock.getsockname()[1]
    _held.append(sock.detach())
    while len(_held) > _MOST_HELD:
        os.close(_held.popleft())
    return port
