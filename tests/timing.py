"""Checks of times, on machines that other people's work stops for a while."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from time import perf_counter, sleep
from typing import ParamSpec

import pytest

from ssbench.core.errors import StorageError

P = ParamSpec("P")

#: Tells what never happens: what a test waits for has no bound of its own on a host that others use
#: too.
PATIENCE_S = 400.0
#: Far above what a busy host adds to what is done at once, and far below PATIENCE_S, which what
#: must not be waited for takes in these tests.
AT_ONCE_S = 60.0
#: For which a store that stalls is waited for: longer than a busy host holds up one that does not.
STALL_S = 4.0

_CALM_S, _NAP_S, _LATE_S = 0.2, 0.005, 0.003
_PATIENCE_S = 20.0
_TRIES = 3


def await_calm() -> None:
    """Wait until this process has woken in time for 0.2 s on end, for 20 s at most."""
    until_s = perf_counter() + _PATIENCE_S
    calm_since_s = now_s = perf_counter()
    while now_s < until_s and now_s - calm_since_s < _CALM_S:
        due_s = now_s + _NAP_S
        sleep(_NAP_S)
        now_s = perf_counter()
        if now_s - due_s > _LATE_S:
            calm_since_s = now_s


def spoilable(reason: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """A test that a core taken away can fail, and nothing can pass by chance: one pass will do.

    The last resort, for at most five tests (test_timing.py counts them): a clock of the test's
    own, events, or bounds that the test itself measured need no second try. What is wrong fails
    every time, so more than a few tries would only hide what is wrong now and then. Tries in a row
    would fail of one busy moment, so each but the first waits for a calm one.

    :param reason: why the test needs the time of a real clock.
    """
    assert reason

    def tried(test: Callable[P, None]) -> Callable[P, None]:
        @wraps(test)
        def again(*args: P.args, **kwargs: P.kwargs) -> None:
            for _ in range(_TRIES - 1):
                with suppress(AssertionError, pytest.fail.Exception, StorageError):
                    return test(*args, **kwargs)
                await_calm()
            return test(*args, **kwargs)

        return again

    return tried
