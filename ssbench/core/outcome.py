"""How a call ended, as a value: for callers to whom an exception can't be raised as it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def outcome_of(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Callable[[], T]:
    """Call, and give a function that gives what came of it: its value, or its exception, raised.

    A thread of gevent's pool prints the traceback of whatever is raised in it, although its
    caller handles that. With this nothing is raised there.
    """
    try:
        value = call(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - nothing is swallowed: the caller gets it
        return partial(_raise, error)
    return lambda: value


def _raise(error: Exception) -> NoReturn:
    raise error
