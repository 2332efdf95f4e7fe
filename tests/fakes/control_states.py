"""A control state from which tests make theirs: ``IDLE._replace(run="r", ...)``."""

from __future__ import annotations

from ssbench.core.messages import ControlState

#: Of a master without a run and without workers.
IDLE = ControlState(
    master=1,
    serial=1,
    master_ns=0,
    run="",
    phase=0,
    start_ns=0,
    workers={},
    refused={},
    settings={},
    timeout_s=10.0,
    operation_timeout_s=0.0,
    pipe=2,
    ending=False,
    stopping=False,
    quit=False,
)
