"""The outcome of a call, as a value: for callers that an exception cannot propagate to."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def outcome_of(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Callable[[], T]:
    """Call, and return a function that returns the call's value or raises its exception.

    A thread of gevent's pool prints the traceback of any exception raised in it, even if its
    caller handles the exception. With this, nothing is raised in the thread.
    """
    try:
        value = call(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - nothing is swallowed: the caller gets it
        return partial(_raise, error)
    return lambda: value


def _raise(error: Exception) -> NoReturn:
    raise error
