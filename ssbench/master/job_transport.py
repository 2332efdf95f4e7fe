"""The exchange: in one phase, jobs for results. What is decided about them is core.dispatch's."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ssbench.core.columns import pack_jobs, unpack_column
from ssbench.core.dispatch.dispatcher import Dispatcher
from ssbench.core.errors import MessageError
from ssbench.core.live import ProgressTracker
from ssbench.core.messages import Ack, Jobs, Results, Returned, encode
from ssbench.core.model import Phase, Result
from ssbench.core.observer import Observer
from ssbench.master.safe_recorder import SafeRecorder
from ssbench.master.worker_manager import WorkerManager

log = logging.getLogger(__name__)

_SENDS_PER_POLL = 64
_DISPLAYED_COLUMNS = [1 + Result._fields.index(name) for name in
          ("operation", "error", "first_byte_ns", "last_byte_ns")]  # fmt: skip


class JobTransport:
    """Sends a dispatcher's jobs, and takes what workers say of them.

    :param send: a message with jobs, to whoever has room; False where nobody has.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        manager: WorkerManager,
        recorder: SafeRecorder,
        observers: Sequence[Observer],
        send: Callable[[bytes], bool],
        clock: Callable[[], int],
    ) -> None:
        self.dispatcher = dispatcher
        self.tracker: ProgressTracker | None = None  #: counts results where observers want it
        self._manager = manager
        self._recorder = recorder
        self._displays = [observer for observer in observers if observer.wants_results]
        self._send = send
        self._clock = clock
        self._pending: deque[bytes] = deque()  # messages with jobs that no worker had room for

    def __repr__(self) -> str:
        return f"<JobTransport {self.dispatcher}>"

    @property
    def has_unsent(self) -> bool:
        """Whether there are jobs that nobody had room for."""
        return bool(self._pending)

    @property
    def numbers(self) -> tuple[int, int]:
        """Of the next job and batch."""
        return self.dispatcher.next_number, self.dispatcher.next_batch

    def send(self, now_ns: int) -> None:
        """Send what is to be sent now, as far as workers have room."""
        pending, send = self._pending, self._send
        if not pending:
            run, phase = self._manager.settings.run_id, self._manager.phase
            pending.extend(
                encode(Jobs(run, phase, batch.number, now_ns, pack_jobs(batch.jobs)))
                for batch in self.dispatcher.to_send(now_ns, _SENDS_PER_POLL)
            )
        while pending and send(pending[0]):
            pending.popleft()

    def drop_unsent(self) -> None:
        """Keep what nobody had room for."""
        self._pending.clear()

    def close(self) -> None:
        """Nothing more is waited for: what workers hold counts as lost."""
        self.dispatcher.close()

    # What workers say ---------------------------------------------------------------------

    def on_ack(self, ack: Ack) -> None:
        """A worker has these batches."""
        if ack.run == self._manager.settings.run_id:
            self.dispatcher.acked(ack.incarnation, ack.batches, self._clock())

    def on_results(self, results: Results) -> bool:
        """A worker did these; False where they are of another phase, or of nobody here."""
        manager, dispatcher = self._manager, self.dispatcher
        worker = manager.registry.workers.get(results.incarnation)
        here = (manager.settings.run_id, manager.phase)
        if worker is None or (results.run, results.phase) != here:
            return False
        if results.acked:
            dispatcher.acked(results.incarnation, results.acked, self._clock())
        packed = dispatcher.results(results.incarnation, results.packed, self._clock())
        if packed is not None:
            self._recorder.append_results(manager.phase, worker.index, results.packed)
            if self._displays and manager.phase is Phase.RUN:
                self._display(packed)
            if self.tracker is not None:
                self.tracker.add_results(packed)
        return True

    def _display(self, packed: Sequence[Any]) -> None:
        try:
            columns = [unpack_column(packed[i], packed[0]) for i in _DISPLAYED_COLUMNS]
        except MessageError as error:
            log.warning("Results that can't be shown: %s", error)
            return
        for observer in self._displays:
            observer.results(columns)

    def on_returned(self, returned: Returned) -> None:
        """A worker gives these back."""
        if returned.run == self._manager.settings.run_id:
            self.dispatcher.returned(returned.incarnation, returned.numbers)

    def on_worker_left(self, incarnation: int) -> int:
        """A worker is here no more; gives how many operations are lost with it."""
        return self.dispatcher.worker_lost(incarnation)
