"""``--influx``: the state of a run in line protocol, to the write address of InfluxDB and others.

Format: https://docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol/
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from queue import SimpleQueue
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import requests

from ssbench import __version__
from ssbench.core.errors import AuthError, SsbenchError, UsageError
from ssbench.core.hiding import Secrets
from ssbench.core.text import plural, printable
from ssbench.live.watch import LiveState, Sink, state_map
from ssbench.storage.http.session import BoundedSession, reason_of
from ssbench.storage.options import HttpSettings

_TIMEOUT_S = 5.0  #: of connecting, and of what follows
_MOST_WAITING = 60  #: states; a minute's
_MOST_SHOWN = 200  #: characters of a response
_FIELDS = (
    "elapsed_s", "remaining_s", "done", "total", "errors", "operations_per_s", "due_per_s",
    "bytes_per_s", "p50_s", "p99_s", "response_p50_s", "response_p99_s", "workers", "users", "late",
)  # fmt: skip
#: Measurement, tag, key of a state.
_COUNTS = (
    ("ssbench_errors", "cause", "errors_by_cause"),
    ("ssbench_statuses", "status", "errors_by_status"),
    ("ssbench_workers", "state", "workers_by_state"),
)


class Influx(Sink):
    """Writes states in a thread. If a minute's worth of states is queued, new ones are dropped.

    The first write is that of the start; the run begins after it.

    :param url: validated by ``core.option.influx_url``.
    :param scenario: a tag of all points.
    :param token: None where none is needed.
    :param tell: called in the end if anything was not written.
    :raises SsbenchError: the first write fails.
    :raises UsageError: the token cannot be one.
    """

    def __init__(
        self,
        url: str,
        scenario: str,
        token: str | None,
        tell: Callable[[str], None],
    ) -> None:
        self._url = url
        self._shown = urlsplit(url)._replace(query="", fragment="").geturl()
        self._tags = f",scenario={_tag(scenario)}" if _tag(scenario) else ""
        self._headers = {
            "Content-Type": "text/plain; charset=utf-8",
            "User-Agent": f"ssbench/{__version__}",
        }
        if token:
            if not token.isascii() or not token.isprintable() or " " in token:
                raise UsageError("INFLUX_TOKEN: a token has no spaces, and only ASCII characters")
            self._headers["Authorization"] = f"Token {token}"
        self._secrets = Secrets({"token": token or ""})
        self._tell = tell
        self._session = BoundedSession(HttpSettings(), timeouts_s=(_TIMEOUT_S, _TIMEOUT_S))
        self._given = 0  # states, and the marks of the start and the end
        self._written = 0
        self._fault = "too slow"
        try:
            self._post(self._mark("begin"))
        except (OSError, AuthError) as error:
            self._session.close()
            raise SsbenchError(f"--influx {self._shown}: {_reason(error)}") from error
        self._waiting: SimpleQueue[bytes | None] = SimpleQueue()
        self._thread = Thread(target=self._write_all, name="ssbench-influx", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write what is waiting, for at most 5 s, and tell what was not written."""
        self._give(self._mark("end"))
        self._waiting.put(None)
        self._thread.join(_TIMEOUT_S)
        lost = self._given - self._written
        if lost:
            self._tell(
                f"--influx {self._shown}: {plural(lost, 'state')} of {self._given} were not"
                f" written: {self._fault}"
            )

    def show(self, state: LiveState) -> None:
        if state.progress is not None:
            self._give("\n".join(_lines(state_map(state), self._tags)).encode())

    def _mark(self, event: str) -> bytes:
        time_ns = round(time.time() * 1e3) * 1_000_000
        return f'ssbench_run{self._tags} event="{event}",version="{__version__}" {time_ns}'.encode()

    def _give(self, lines: bytes) -> None:
        self._given += 1
        if self._waiting.qsize() < _MOST_WAITING:
            self._waiting.put(lines)

    def _write_all(self) -> None:
        while (lines := self._waiting.get()) is not None:
            try:
                try:
                    self._post(lines)
                except requests.Timeout:
                    raise
                except requests.ConnectionError:
                    self._post(lines)  # it had closed the idle connection; same times: same points
            except (OSError, AuthError) as error:
                self._fault = _reason(error)
            else:
                self._written += 1
        self._session.close()

    def _post(self, lines: bytes) -> None:
        response = self._session.post(self._url, lines, headers=self._headers)
        if response.status_code >= 300:
            said = printable(response.content[:_MOST_SHOWN].decode("utf-8", "replace").strip())
            text = f"HTTP {response.status_code} {printable(response.reason)}: {said}"
            raise _RefusedError(self._secrets.masked(text))


class _RefusedError(OSError):
    """The server did not write the lines; the text says what it answered."""


def _reason(error: Exception) -> str:
    if isinstance(error, _RefusedError):
        return str(error).removesuffix(": ")
    if isinstance(error, AuthError):
        return "a response that is too long, or can't be decoded"
    if isinstance(error, requests.Timeout):
        return f"no connection or no complete response within {2 * _TIMEOUT_S:g} s"
    return f"can't be reached: {reason_of(error)}"


def _lines(state: Mapping[str, Any], tags: str) -> Iterator[str]:
    """The points of a state."""
    time_ns = round(state["time_s"] * 1e3) * 1_000_000
    if state["run"] is not None:
        tags += f",run={state['run']},run_name={_tag(state['run_name'])}"
    tags += f",phase={state['phase']}"
    yield f"ssbench{tags} {_fields({name: state[name] for name in _FIELDS})} {time_ns}"
    for name, figures in state["operations"].items():
        yield f"ssbench_operations{tags},operation={_tag(name)} {_fields(figures)} {time_ns}"
    for measurement, tag, key in _COUNTS:
        for value, count in state[key].items():
            yield f"{measurement}{tags},{tag}={_tag(value)} count={count}i {time_ns}"


def _fields(values: Mapping[str, float | None]) -> str:
    # The first value sets a field's type permanently: seconds and rates are floats.
    return ",".join(
        f"{name}={float(value)!r}" if name.endswith("_s") else f"{name}={value}i"
        for name, value in values.items()
        if value is not None
    )


def _tag(text: str) -> str:
    """A tag's value; a backslash at its end would escape what follows."""
    plain = printable(text).replace("\\", "/")
    for character in ", =":
        plain = plain.replace(character, f"\\{character}")
    return plain
