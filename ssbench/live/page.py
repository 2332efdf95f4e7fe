"""``--web``: a run as a page that updates itself, with a button that stops it.

The master's loop only stores what it shows; the server's threads read it.
"""

from __future__ import annotations

import json
import secrets
import time
from collections import deque
from collections.abc import Iterable, Iterator
from importlib import resources
from threading import Condition
from typing import Any

from ssbench.core.live import Observer, RunProgress, by_attention
from ssbench.core.model import Phase
from ssbench.core.operations import OPERATIONS
from ssbench.core.text import printable
from ssbench.live.progress import TITLES
from ssbench.live.text import error_causes, phase_title
from ssbench.live.web_server import Page, Query, WebServer
from ssbench.runner.stop import Stop

_REFRESH_S = 1.0
_MESSAGES_KEPT = 100
_PING_S = 5.0  #: an idle stream says something, so that a closed one is noticed
_MAX_WORKERS_SENT = 200
STOPPED = "stopped on the web page"  #: a reason of Stop
#: Of RunProgress: what the page does not show, or in another form.
_NOT_SENT = ("moving", "errors_by_cause", "errors_by_status")


class LivePage(Observer):
    """An observer that serves what it is told.

    :param address: IP address and port; 0 for any that is free.
    :param stop: called with a reason when the button is pressed, if nothing stops the run already.
    :raises SsbenchError: the address can't be listened on.
    """

    wants_counts = True

    def __init__(self, address: tuple[str, int], stop: Stop) -> None:
        self._stop = stop
        self._run: tuple[int, str] | None = None
        self._title = self._wait = ""
        self._is_run = False
        self._latest: RunProgress | None = None
        self._of_run: RunProgress | None = None  # the newest of a run phase
        self._summary: list[tuple[str, str]] = []
        self._messages: deque[str] = deque(maxlen=_MESSAGES_KEPT)
        self.report = ""  #: the page of ``finish``
        self._ended = self._closed = False
        self._serial = 0
        self._due_s = 0.0
        self._changed = Condition()
        self._server = WebServer(address, self)
        self.url = self._server.url

    def __repr__(self) -> str:
        return f"<LivePage {self._server!r}>"

    # An observer: called by the master's loop ----------------------------------------------------

    def start_run(self, number: int, name: str) -> None:
        self._run = number, name

    def start_phase(self, phase: Phase, total: int | None = None, title: str = "") -> None:
        self._title, self._latest = phase_title(title or TITLES[phase], self._run), None
        self._is_run = phase is Phase.RUN

    def update(self, progress: RunProgress) -> None:
        self._latest = progress
        if self._is_run:
            self._of_run = progress
        self._publish()

    def wait_for(self, text: str) -> None:
        if text != self._wait:
            self._wait = text
            self._publish()

    def info(self, text: str) -> None:
        self.message(text)

    def message(self, text: str) -> None:
        self._messages.extend(printable(line) for line in text.splitlines())

    def _publish(self, *, at_once: bool = False) -> None:
        now_s = time.monotonic()
        if at_once or now_s >= self._due_s:
            self._due_s = now_s + _REFRESH_S
            with self._changed:
                self._serial += 1
                self._changed.notify_all()

    def finish(self, report: str, summary: Iterable[tuple[str, str]] = ()) -> None:
        """The run is over: serve its report, a page, from now on; "" if there is none.

        The page ends with the figures of the run, not with those of its clean-up.

        :param summary: topic and text of the report's last lines.
        """
        self.report, self._ended = report, True
        self._summary = [(printable(topic), printable(text)) for topic, text in summary]
        self._latest = self._of_run or self._latest
        self._publish(at_once=True)

    def close(self) -> None:
        """Stop serving, and end the event streams."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._server.close()

    # A site: called by the server's threads ------------------------------------------------------

    def get(self, path: str, query: Query) -> Page | Iterator[str] | None:
        if path == "/":
            nonce = secrets.token_urlsafe(12)
            page = resources.files("ssbench.live").joinpath("page.html").read_text("utf-8")
            return Page(page.replace("@NONCE@", nonce), f"'nonce-{nonce}'")
        if path == "/report" and self.report:
            return Page(self.report, "'unsafe-inline'")
        return self.states() if path == "/events" else None

    def post(self, path: str) -> bool:
        """End the run gracefully. A second request would end it at once: there is none."""
        if path != "/stop":
            return False
        with self._changed:
            if not self._stop.requested:
                self._stop(STOPPED)
        self._publish(at_once=True)
        return True

    def states(self) -> Iterator[str]:
        """The state now, and whenever it has changed, as JSON; "" if nothing came for a while."""
        serial = -1
        while not self._closed:
            with self._changed:
                if self._serial == serial and not self._closed:
                    self._changed.wait(_PING_S)
                is_new, serial = self._serial > serial, self._serial
            yield json.dumps(self._state()) if is_new else ""

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = {
            "title": printable(self._title),
            "waiting": printable(self._wait),
            "messages": list(self._messages),
            "stopping": self._stop.requested,
            "ended": self._ended,
            "report": bool(self.report),
            "summary": self._summary,
        }
        latest = self._latest
        if latest is not None:
            found = {
                name: getattr(latest, name)
                for name in latest.__struct_fields__
                if name not in _NOT_SENT
            }
            found["operations"] = [
                {"name": OPERATIONS[n].name if n in OPERATIONS else str(n), **row._asdict()}
                for n, row in sorted(latest.operations.items())
            ]
            workers = by_attention(latest.workers_seen)
            found["workers_seen"] = [
                {**worker._asdict(), "name": printable(worker.name)}
                for worker in workers[:_MAX_WORKERS_SENT]
            ]
            state["progress"] = {**found, "causes": error_causes(latest)}
        return state
