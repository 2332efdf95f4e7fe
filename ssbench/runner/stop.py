"""What comes to a run from outside: a request to end it before its time, and marks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Event, Thread
from time import sleep, time
from typing import TYPE_CHECKING, TypeVar

from ssbench.core.errors import outcome_of
from ssbench.core.text import printable

if TYPE_CHECKING:
    from ssbench.core.records import EventRecord

_POLL_INTERVAL_S = 0.05
_TAKEN_S = 3.0  #: in which a master records a mark
MOST_MARKS, MARK_LENGTH = 1000, 200  #: of a run; characters

T = TypeVar("T")


class Stop:
    """Call it to end the run that it was given to: once gracefully, twice at once.

    The first call lets operations in flight finish; the run cleans up, keeps its results and
    returns. Before there is a master, nothing was changed: then the run raises KeyboardInterrupt
    at its next step, with the reason. So it does after a second call, and leaves objects behind.
    """

    def __init__(self) -> None:
        self.reason = ""  #: of the first call; "" if there was none
        self.raised = False  #: KeyboardInterrupt was raised
        self._listener: Callable[[str], None] | None = None
        self._calls: deque[str] = deque()  #: reasons that no listener has been told
        self._marks: deque[tuple[EventRecord, Event]] = deque()
        self._marked = 0

    def __repr__(self) -> str:
        return f"<Stop {self.reason or 'not requested'}>"

    def __call__(self, reason: str = "stopped") -> None:
        self.reason = self.reason or reason
        self._calls.append(self.reason)
        self._deliver()

    @property
    def requested(self) -> bool:
        """Whether it was called."""
        return bool(self.reason)

    @property
    def graceful(self) -> bool:
        """Whether a first call lets the run go on to its end: there is a master to tell."""
        return self._listener is not None

    def listen(self, listener: Callable[[str], None] | None) -> None:
        """From now on calls go to ``listener(reason)``; earlier ones at once. None: another run
        begins, which has no master yet."""
        self._listener = listener
        self._deliver()

    def _deliver(self) -> None:
        """Tell the listener of each call once, although a signal or a thread may come between any
        two lines."""
        while (listener := self._listener) is not None:
            try:
                reason = self._calls.popleft()
            except IndexError:
                return
            listener(reason)

    def mark(self, text: str, who: str) -> str:
        """Mark this moment of the run; called in another thread than the master's.

        :returns: why it was not recorded; "": it was.
        """
        from ssbench.core.records import EventRecord  # loads slowly

        text = printable(text.strip())
        if not text:
            return "a mark needs a text"
        if len(text) > MARK_LENGTH:
            return f"the text has {len(text):,} characters; at most {MARK_LENGTH}"
        if self._marked >= MOST_MARKS:
            return f"the run has {MOST_MARKS} marks already"
        event = EventRecord(round(time(), 3), text, printable(who)[:MARK_LENGTH])
        entry = event, Event()
        self._marks.append(entry)
        if not entry[1].wait(_TAKEN_S):
            with suppress(ValueError):  # it was taken just now
                self._marks.remove(entry)
                return "the run records nothing now"
        self._marked += 1
        return ""

    def marks(self) -> Iterator[EventRecord]:
        """Those that came since the last call; each is recorded when the next is asked for."""
        while self._marks:
            event, recorded = self._marks.popleft()
            yield event
            recorded.set()

    def check(self) -> None:
        """:raises KeyboardInterrupt: it was called, and nothing listens."""
        if self.reason and self._listener is None:
            self.end()

    def end(self) -> None:
        """:raises KeyboardInterrupt: always."""
        self.raised = True
        raise KeyboardInterrupt(self.reason)

    def sleep(self, seconds: float) -> None:
        """Sleep, then check."""
        sleep(seconds)
        self.check()

    def run_interruptible(
        self, work: Callable[[], T], waiting: Callable[[], None] = lambda: None
    ) -> T:
        """The result of ``work``, called in a thread, which is abandoned on a stop.

        :param waiting: called repeatedly meanwhile.
        :raises KeyboardInterrupt: as ``check``.
        """
        outcomes: list[Callable[[], T]] = []
        thread = Thread(target=lambda: outcomes.append(outcome_of(work)), daemon=True)
        thread.start()
        thread.join(_POLL_INTERVAL_S)
        while thread.is_alive():
            self.check()
            waiting()
            thread.join(_POLL_INTERVAL_S)
        return outcomes[0]()
