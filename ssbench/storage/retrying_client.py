"""Retries and renewed credentials for the master's own requests (create, list, delete).

Drivers never retry. During a run the worker decides on retries; for the master's requests, this
module does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import ParamSpec, TypeVar

import gevent
from gevent.lock import BoundedSemaphore

from ssbench.core.errors import SsbenchError, StorageError, outcome_of
from ssbench.core.hiding import Secrets
from ssbench.core.model import ErrorKind
from ssbench.core.retry import FIRST_PAUSE_S, LONGEST_PAUSE_S, RETRIED_KINDS, RETRIED_STATUSES
from ssbench.core.settings import LISTED_MAX, Credentials
from ssbench.core.text import printable
from ssbench.storage.base import StoreAdmin, StoreLimits

RENEWALS = 3  #: of the credentials, per request

#: Fetches new credentials. May block: runs in the hub's thread pool.
Renew = Callable[[], Credentials]

P = ParamSpec("P")
T = TypeVar("T")


class RetryingClient:
    """Calls methods of a StoreAdmin for many greenlets, with at most ``concurrency`` in flight.

    :param retries: attempts after a first one that failed with a transient error.
    :param renew: called once for all greenlets when the store rejects the credentials; None: such a
        rejection is an error like any other.
    :param stopping: once true, failed requests are not retried.
    :param sleep: waits between attempts.
    :param listed_max: as of StorageSettings.
    :param credentials: those that the storage has; errors don't repeat what is secret in them.
    """

    def __init__(
        self,
        storage: StoreAdmin,
        concurrency: int = 1,
        *,
        retries: int = 5,
        renew: Renew | None = None,
        stopping: Callable[[], bool] = lambda: False,
        sleep: Callable[[float], object] = gevent.sleep,
        listed_max: int = LISTED_MAX,
        credentials: Credentials | None = None,
    ) -> None:
        #: Those of the store, which messages may not show although it sends them back.
        self.secrets = Secrets(credentials.payload if credentials else None)
        self.listed_max = listed_max
        self.storage = storage
        self._retries = retries
        self._renew = renew
        self.stopping = stopping
        self.sleep = sleep
        self.concurrency = concurrency
        self._slots = BoundedSemaphore(concurrency)
        self._renewing = BoundedSemaphore(1)
        self._rejected = credentials.rejected if credentials else ()

    @cached_property
    def limits(self) -> StoreLimits:
        """The store's; none that is known if it can't be asked: what follows may work, or fails."""
        try:
            return self.call(self.storage.limits)
        except SsbenchError:
            return StoreLimits()

    def call(self, request: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``request``, a bound method of the storage; returns its result.

        :raises StorageError: of the last attempt.
        """
        try:
            return self._call(request, *args, **kwargs)
        except SsbenchError:
            with self.secrets.hidden():  # those of a renewal in the call, too
                raise

    def shown(self, name: str) -> str:
        """A name that the store lists, for messages."""
        return self.secrets.masked(printable(name))

    def _call(self, request: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        retries = renewals = 0
        while True:
            serial = self.storage.credentials_serial
            try:
                with self._slots:
                    if self.storage.concurrency == "threads":
                        pool = gevent.get_hub().threadpool
                        called: Callable[[], T] = pool.apply(
                            outcome_of, (partial(request, *args, **kwargs),)
                        )
                        return called()
                    return request(*args, **kwargs)
            except StorageError as error:
                if self.stopping():
                    raise
                rejected = error.kind is ErrorKind.UNAUTHORIZED
                if rejected and error.identity in self._rejected:
                    raise
                if rejected and self._renew is not None and renewals < RENEWALS:
                    renewals += 1
                    self._renew_credentials(self._renew, serial)
                elif retries < self._retries and (
                    error.status in RETRIED_STATUSES or error.kind in RETRIED_KINDS
                ):
                    # Outside the slot, so that others can use it during the pause.
                    self.sleep(min(FIRST_PAUSE_S * 2**retries, LONGEST_PAUSE_S))
                    retries += 1
                else:
                    raise

    def _renew_credentials(self, renew: Renew, refused_serial: int) -> None:
        with self._renewing:
            if self.storage.credentials_serial != refused_serial:
                return  # another greenlet has renewed it
            renewed = gevent.get_hub().threadpool.apply(outcome_of, (renew,))
            credentials = renewed()
            self.secrets = Secrets(credentials.payload, self.secrets)
            self._rejected = credentials.rejected
            self.storage.set_credentials(credentials)
