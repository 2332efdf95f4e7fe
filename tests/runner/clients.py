"""Clients for tests: they do not sleep between attempts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ssbench.storage.retrying_client import RetryingClient


def no_sleep(seconds: float) -> None:
    """Do not wait."""


client: Callable[..., RetryingClient] = partial(RetryingClient, sleep=no_sleep)
