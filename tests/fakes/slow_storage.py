"""The no-op driver, but every operation takes 10 ms: workers are to be caught in the middle."""

from __future__ import annotations

from collections.abc import Mapping

import gevent

from ssbench.core.model import Job, Timing
from ssbench.core.settings import StorageSettings
from ssbench.storage.base import Action
from ssbench.storage.noop import NoopStorage

DRIVER = f"{__name__}:SlowStorage"


class SlowStorage(NoopStorage):
    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        super().__init__(settings, seed)
        self.actions: Mapping[int, Action] = {
            operation: _slowly(action) for operation, action in self.actions.items()
        }


def _slowly(action: Action) -> Action:
    def act(job: Job, deadline_ns: int) -> Timing:
        gevent.sleep(0.01)
        return action(job, deadline_ns)

    return act
