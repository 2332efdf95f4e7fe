"""Where a phase stands: what the master says, and a display shows, while it goes on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Where a phase stands."""

    elapsed_s: float
    done: int
    total: int | None = None  #: None where the phase ends by time
    errors: int = 0
    rate: float = 0.0  #: operations per second, of the last seconds
    p50_s: float | None = None  #: latencies of the last seconds
    p99_s: float | None = None
    remaining_s: float | None = None
    workers: int = 0
    users: int = 0
