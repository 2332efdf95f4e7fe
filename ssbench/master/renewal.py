"""A new token, fetched in a thread of its own, since that may block."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ssbench.core.dispatch.worker_registry import SECOND
from ssbench.core.errors import AuthError

_RENEWAL_NS = SECOND  # at most one new token in so long


class Renewal:
    """Fetches a token in a thread of its own, since that may block."""

    def __init__(self, renew: Callable[[], tuple[str, int]]) -> None:
        self._renew = renew
        self._thread: threading.Thread | None = None
        self._outcome: tuple[str, int, str] | None = None
        self._not_before_ns = 0

    def begin(self, now_ns: int) -> None:
        """Fetch a token, unless that is under way or was just done."""
        if self._thread is None and now_ns >= self._not_before_ns:
            self._not_before_ns = now_ns + _RENEWAL_NS
            self._thread = threading.Thread(target=self._fetch, name="ssbench-token", daemon=True)
            self._thread.start()

    def _fetch(self) -> None:
        try:
            self._outcome = (*self._renew(), "")
        except AuthError as error:
            self._outcome = ("", 0, str(error))

    def outcome(self) -> tuple[str, int, str] | None:
        """Token, serial and what went wrong ("" for nothing); None while there is nothing new."""
        if self._thread is None or self._thread.is_alive():
            return None
        outcome, self._outcome = self._outcome, None
        self._thread = None
        return outcome or ("", 0, "the renewal failed")
