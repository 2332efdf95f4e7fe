"""Checks of times, on machines that other people's work stops for a while."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import ParamSpec

import pytest

from ssbench.core.errors import StorageError

P = ParamSpec("P")


def spoilable_in(tries: int) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """A test that a core taken away can fail, and nothing can pass by chance: one pass will do.

    For tests whose claim is a time, or which live by timeouts of a fraction of a second. What is
    wrong fails every time, so more than a few tries would only hide what is wrong now and then.
    """

    def tried(test: Callable[P, None]) -> Callable[P, None]:
        @wraps(test)
        def again(*args: P.args, **kwargs: P.kwargs) -> None:
            for _ in range(tries - 1):
                with suppress(AssertionError, pytest.fail.Exception, StorageError):
                    return test(*args, **kwargs)
            return test(*args, **kwargs)

        return again

    return tried


spoilable = spoilable_in(3)
