"""``--web``: a run as a page that updates itself, with a button that stops it.

The master's loop only stores what it shows; the server's threads read it.
"""

from __future__ import annotations

import json
import secrets
from collections import deque
from collections.abc import Iterable, Iterator
from importlib import resources
from threading import Condition
from typing import Any

from msgspec.structs import replace

from ssbench.core.live import by_attention
from ssbench.core.model import Phase
from ssbench.core.text import printable
from ssbench.live.watch import LiveState, Sink, figures, operation_rows, state_map
from ssbench.live.web_server import Page, Query, WebServer
from ssbench.runner.stop import Stop

_MESSAGES_KEPT = 100
_PING_S = 5.0  #: an idle stream says something, so that a closed one is noticed
_MAX_WORKERS_SENT = 200
STOPPED = "stopped on the web page"  #: a reason of Stop


class LivePage(Sink):
    """Serves what it is told.

    :param address: IP address and port; 0 for any that is free.
    :param stop: called with a reason when the button is pressed, if nothing stops the run already.
    :raises SsbenchError: the address can't be listened on.
    """

    at_once = True

    def __init__(self, address: tuple[str, int], stop: Stop) -> None:
        self._stop = stop
        self._live = LiveState()
        self._of_run: LiveState | None = None  # the newest of a run phase
        self._summary: list[tuple[str, str]] = []
        self._messages: deque[str] = deque(maxlen=_MESSAGES_KEPT)
        self.report = ""  #: the page of ``finish``
        self._ended = self._closed = False
        self._serial = 0
        self._changed = Condition()
        self._server = WebServer(address, self)
        self.url = self._server.url

    def __repr__(self) -> str:
        return f"<LivePage {self._server!r}>"

    def show(self, state: LiveState) -> None:
        if state.title:
            self._live = state
        else:  # between two phases the figures of the last one stay
            self._live = replace(self._live, waiting=state.waiting)
        if state.phase is Phase.RUN and state.progress is not None:
            self._of_run = state
        self._publish()

    def message(self, text: str, *, info: bool = False) -> None:
        self._messages.extend(printable(line) for line in text.splitlines())

    def _publish(self) -> None:
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
        self._live = self._of_run or self._live
        self._publish()

    def stop_serving(self) -> None:
        """And end the event streams. Not ``close``: the report is shown after the run."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._server.close()

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
        self._publish()
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
        live, progress = self._live, self._live.progress
        state: dict[str, Any] = {
            "title": printable(live.title),
            "waiting": printable(live.waiting),
            "messages": list(self._messages),
            "stopping": self._stop.requested,
            "ended": self._ended,
            "report": bool(self.report),
            "summary": self._summary,
        }
        if progress is not None:
            workers = by_attention(progress.workers_seen)[:_MAX_WORKERS_SENT]
            state["progress"] = {
                **state_map(live),
                "figures": [*figures(progress)],
                "rows": operation_rows(progress),
                "workers_seen": [
                    {**worker._asdict(), "name": printable(worker.name)} for worker in workers
                ],
            }
        return state
