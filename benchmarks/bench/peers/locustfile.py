"""Locust's FastHttpUser on one object; ``BENCH_URL`` and ``BENCH_SIZE`` (0: GET) say what."""

import os
import time
from typing import Any

from locust import FastHttpUser, constant, events, task

_URL = os.environ["BENCH_URL"]
_BODY = b"l" * int(os.environ["BENCH_SIZE"])
_times: list[float] = []


class User(FastHttpUser):
    """One that waits for nothing but its answers."""

    host = _URL
    wait_time = constant(0)

    @task
    def act(self) -> None:
        """A request."""
        if _BODY:
            self.client.put(_URL, data=_BODY, name="all")
        else:
            self.client.get(_URL, name="all")


@events.spawning_complete.add_listener
def _begin(**_: Any) -> None:
    _times.append(time.perf_counter())


@events.test_stop.add_listener
def _end(environment: Any, **_: Any) -> None:
    total = environment.stats.total
    if total.num_failures:
        raise SystemExit(f"{total.num_failures} requests failed")
    print(f"SAYS {total.num_requests} {time.perf_counter() - _times[0]:.6f}", flush=True)
