"""Renewal of credentials: in a thread of its own, since it may block."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ssbench.core.errors import SsbenchError
from ssbench.core.model import SECOND_NS
from ssbench.core.settings import Credentials

#: At most one in this time for a worker that asks. The time doubles with each that follows the last
#: one within a minute: tokens live longer, but a worker can say what it likes.
_RENEWAL_NS, _LONGEST_PAUSE_NS, _CALM_NS = SECOND_NS, 30 * SECOND_NS, 60 * SECOND_NS
#: Credentials are renewed a tenth of their lifetime before they expire, but at most this long.
_EARLY_S = 60.0
_EARLY_PART = 10


class Renewal:
    """Renews credentials when a worker asks for it, and before they expire.

    :param credentials: those in use.
    :param now: Unix time.
    """

    def __init__(
        self, renew: Callable[[], Credentials], credentials: Credentials, now: float
    ) -> None:
        self._renew = renew
        self._thread: threading.Thread | None = None
        self._outcome: Credentials | str | None = None
        self._began_ns: int | None = None  # the newest that a worker asked for
        self._pause_ns = 0  # until the next of these
        self._due_at = _due_at(credentials, None, now)

    def begin(self, now_ns: int) -> None:
        """A worker asks: renew, unless that is in progress, or was done too often of late."""
        since_ns = _CALM_NS if self._began_ns is None else now_ns - self._began_ns
        if self._thread is None and since_ns >= self._pause_ns:
            calm = since_ns >= _CALM_NS
            self._pause_ns = _RENEWAL_NS if calm else min(2 * self._pause_ns, _LONGEST_PAUSE_NS)
            self._began_ns = now_ns
            self._start()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._fetch, name="ssbench-renewal", daemon=True)
        self._thread.start()

    def begin_if_due(self, now_ns: int, wall_ns: int) -> None:
        """Renew if the credentials are about to expire."""
        if self._due_at is not None and wall_ns >= self._due_at * SECOND_NS:
            self._due_at = None
            if self._thread is None:
                self._start()

    def _fetch(self) -> None:
        try:
            self._outcome = self._renew()
        except SsbenchError as error:
            self._outcome = str(error)

    def outcome(self, previous: Credentials, now: float) -> Credentials | str | None:
        """The new credentials, or why there are none; None while there is nothing new.

        :param previous: those in use.
        :param now: Unix time.
        """
        if self._thread is None or self._thread.is_alive():
            return None
        outcome, self._outcome, self._thread = self._outcome, None, None
        if isinstance(outcome, Credentials):
            # After an early renewal with the same expiry, the planned one is still to come.
            planned = self._due_at if outcome.expires_at == previous.expires_at else None
            self._due_at = _due_at(outcome, previous, now) or planned
        else:  # the operations that wait are to fail soon
            self._pause_ns = _RENEWAL_NS
        return outcome or "the renewal failed"


def _due_at(new: Credentials, previous: Credentials | None, now: float) -> float | None:
    """When to renew these, Unix time; None: when the store rejects them.

    That is so if the expiry is unknown, past (clocks differ), or no later than the previous one
    (tempauth issues the same token until it has expired).
    """
    if new.expires_at is None or new.expires_at <= now:
        return None
    if previous and previous.expires_at is not None and new.expires_at <= previous.expires_at + 1:
        return None
    return new.expires_at - min(_EARLY_S, (new.expires_at - now) / _EARLY_PART)
