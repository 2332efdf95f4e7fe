"""Python's garbage collector, kept out of the way of what makes much and leaves no cycles."""

from __future__ import annotations

import gc


def tune_garbage_collector() -> None:
    """Keep it from pauses in the hot paths.

    What start-up has made is left alone for good, its little garbage included: to look for that
    would take as long as a tenth of the start. The rest is looked at 70 times less often.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
