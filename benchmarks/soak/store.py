"""The store: a real Swift of four processes, two of which are made to fail."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote

from msgspec.structs import replace

from tests.servers.four_process import FourProcessSwift

#: Besides the tokens that are taken away, they run out.
TOKEN_LIFE_S = 240


class SoakedSwift(FourProcessSwift):
    """Revokes all its tokens on demand."""

    def kill(self, role: str) -> None:
        """Kill the process of a role; a new proxy doesn't know earlier tokens."""
        super().kill(role)
        if role == "proxy":
            key = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
            self._plan = replace(self.plan, fernet_key=key)


class Answer(NamedTuple):
    """A logged request for an object."""

    method: str
    name: str
    status: int


def answers(swift: FourProcessSwift) -> Iterator[tuple[bytes, Answer]]:
    """Transaction id and response of all requests for objects, in order."""
    with swift.access_log().open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            method, target, status, transaction, _size = line.rsplit(" ", 4)
            parts = target.partition("?")[0].split("/", 4)
            if len(parts) == 5 and parts[4]:
                yield transaction.encode(), Answer(method, unquote(parts[4]), int(status))
