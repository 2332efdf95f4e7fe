"""Sinks that push the state of a run to a service each second: InfluxDB's line protocol, and OTLP.

Line protocol: https://docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol/
OTLP/HTTP: https://github.com/open-telemetry/opentelemetry-proto, with the variables of the
specification "OpenTelemetry Protocol Exporter".

OpenTelemetry's own exporter was tried, and only its messages are used: against a server that sends
its response slowly it took 15 s with a timeout of 2 s, and it repeats requests on its own.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil, log2
from queue import SimpleQueue
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

import requests

from ssbench import __version__
from ssbench.core.errors import AuthError, SsbenchError, UsageError
from ssbench.core.hiding import Secrets
from ssbench.core.live import middle_s
from ssbench.core.option import otlp_url
from ssbench.core.text import plural, printable
from ssbench.live.watch import PHASES, LiveState, Sink, Totals, state_map, workers_by_state
from ssbench.storage.http.session import BoundedSession, reason_of
from ssbench.storage.options import HttpSettings, read_bundle

_TIMEOUT_S = 5.0  #: of connecting, and of what follows
_MOST_WAITING = 60  #: states; a minute's
_MOST_SHOWN = 200  #: characters of a response
#: Measurement, tag, key of a state.
_COUNTS = (
    ("ssbench_errors", "cause", "errors_by_cause"),
    ("ssbench_statuses", "status", "errors_by_status"),
    ("ssbench_workers", "state", "workers_by_state"),
)


class _Push(Sink):
    """Posts what ``_give`` takes, in a thread. If a minute's worth of states is queued, new ones
    are dropped; the end of a run waits for the service for 5 s.

    :param option: that gave the URL.
    :param secrets: that responses may repeat.
    :param tell: called in the end if anything was not written.
    """

    def __init__(
        self,
        option: str,
        url: str,
        headers: Mapping[str, str],
        secrets: Secrets,
        tell: Callable[[str], None],
        http: HttpSettings | None = None,
    ) -> None:
        self._url = url
        self._shown = f"{option} {urlsplit(url)._replace(query='', fragment='').geturl()}"
        self._headers = {"User-Agent": f"ssbench/{__version__}", **headers}
        self._secrets = secrets
        self._tell = tell
        self._session = BoundedSession(http or HttpSettings(), (_TIMEOUT_S, _TIMEOUT_S))
        self._given = self._written = 0
        self._fault = "too slow"
        self._waiting: SimpleQueue[bytes | None] = SimpleQueue()
        self._thread = Thread(target=self._write_all, name=f"ssbench{option}", daemon=True)

    def close(self) -> None:
        """Write what is waiting, for at most 5 s, and tell what was not written."""
        self._waiting.put(None)
        self._thread.join(_TIMEOUT_S)
        lost = self._given - self._written
        if lost:
            self._tell(
                f"{self._shown}: {plural(lost, 'state')} of {self._given} were not"
                f" written: {self._fault}"
            )

    def _give(self, data: bytes) -> None:
        self._given += 1
        if self._waiting.qsize() < _MOST_WAITING:
            self._waiting.put(data)

    def _write_all(self) -> None:
        while (data := self._waiting.get()) is not None:
            try:
                self._post(data)
            except (OSError, SsbenchError) as error:
                self._fault = _reason(error)
            else:
                self._written += 1

    def _post(self, data: bytes) -> None:
        response = self._session.post(self._url, data, headers=self._headers)
        if response.status_code >= 300:
            said = response.content[:_MOST_SHOWN].decode("utf-8", "replace").strip()
            raise self._refused(f"HTTP {response.status_code} {response.reason}: {said}")
        self._check(response.content)

    def _check(self, content: bytes) -> None:
        """:raises OSError: what a successful response says is no success."""

    def _refused(self, text: str) -> OSError:
        return _RefusedError(self._secrets.masked(printable(text)))


class Influx(_Push):
    """Points of each state. The first write is that of the start; the run begins after it.

    :param url: validated by ``core.option.influx_url``.
    :param scenario: a tag of all points.
    :param token: None where none is needed.
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
        self._tags = f",scenario={_tag(scenario)}" if _tag(scenario) else ""
        self._marked_s = 0.0  # the newest mark that was given
        headers = {"Content-Type": "text/plain; charset=utf-8"}
        if token:
            if not token.isascii() or not token.isprintable() or " " in token:
                raise UsageError("INFLUX_TOKEN: a token has no spaces, and only ASCII characters")
            headers["Authorization"] = f"Token {token}"
        super().__init__("--influx", url, headers, Secrets({"token": token or ""}), tell)
        try:
            self._post(self._mark("begin"))
        except (OSError, AuthError) as error:
            raise SsbenchError(f"{self._shown}: {_reason(error)}") from error
        self._thread.start()

    def close(self) -> None:
        self._give(self._mark("end"))
        super().close()

    def show(self, state: LiveState) -> None:
        if state.progress is not None:
            found, tags = state_map(state), self._tags
            if found["run"] is not None:
                tags += f",run={found['run']},run_name={_tag(found['run_name'])}"
            lines = [*_lines(found, tags)]
            for event in state.marks:
                if event.at_s > self._marked_s:
                    self._marked_s = event.at_s
                    fields = f"text={_string(event.text)},who={_string(event.who)}"
                    time_ns = round(event.at_s * 1e3) * 1_000_000
                    lines.append(f"ssbench_marks{tags} {fields} {time_ns}")
            self._give("\n".join(lines).encode())

    def _mark(self, event: str) -> bytes:
        time_ns = round(time.time() * 1e3) * 1_000_000
        return f'ssbench_run{self._tags} event="{event}",version="{__version__}" {time_ns}'.encode()


class _RefusedError(OSError):
    """The server did not write the lines; the text says what it answered."""


def _reason(error: Exception) -> str:
    if isinstance(error, _RefusedError):
        return str(error).removesuffix(": ")
    if isinstance(error, AuthError):
        return "a response that is too long, or can't be decoded"
    if isinstance(error, UsageError):
        return str(error)
    if isinstance(error, requests.Timeout):
        return f"no connection or no complete response within {2 * _TIMEOUT_S:g} s"
    return f"can't be reached: {reason_of(error)}"


def _lines(state: Mapping[str, Any], tags: str) -> Iterator[str]:
    """The points of a state."""
    time_ns = round(state["time_s"] * 1e3) * 1_000_000
    tags += f",phase={state['phase']}"
    numbers = {key: value for key, value in state.items() if type(value) in (int, float)}
    fields = {key: value for key, value in numbers.items() if key not in ("run", "time_s")}
    yield f"ssbench{tags} {_fields(fields)} {time_ns}"
    for name, figures in state["operations"].items():
        yield f"ssbench_operations{tags},operation={_tag(name)} {_fields(figures)} {time_ns}"
    for name, figures in state["identities"].items():
        yield f"ssbench_identities{tags},identity={_tag(name)} {_fields(figures)} {time_ns}"
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


def _string(text: str) -> str:
    escaped = printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _tag(text: str) -> str:
    """A tag's value; a backslash at its end would escape what follows."""
    plain = printable(text).replace("\\", "/")
    for character in ", =":
        plain = plain.replace(character, f"\\{character}")
    return plain


_SCALE = 4  #: of exponential histograms: buckets are 4.4 % wide
_CUMULATIVE = 2  #: AGGREGATION_TEMPORALITY_CUMULATIVE
#: Name and unit of a sum, the field of Totals, the attributes of its keys.
_STATUS = "http.response.status_code"
_COUNTED = (
    ("ssbench.operations", "{operation}", "outcomes", ("ssbench.operation", "ssbench.outcome")),
    ("ssbench.errors", "{error}", "errors", ("error.type",)),
    ("ssbench.error.responses", "{response}", "statuses", (_STATUS,)),
    (
        "ssbench.identity.operations",
        "{operation}",
        "identities",
        ("ssbench.identity", "ssbench.outcome"),
    ),
)
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
#: Headers of the HTTP request that are not the user's to give.
_OURS = {"host", "content-type", "content-length", "content-encoding", "transfer-encoding"}
_PAIRS = (
    "NAME=VALUE with commas between them, or (in a file) in a line each; a comma in a value is %2C"
)


class Otlp(_Push):
    """Metrics of each state, as protobuf. What the collector is or does delays no run and fails
    none.

    :param url: validated by ``core.option.otlp_url``; "": that of the environment.
    :param scenario: a resource attribute.
    :param headers: text of a file with headers, in the form of OTEL_EXPORTER_OTLP_HEADERS, or in a
        line each; "": those of the environment.
    :raises UsageError: opentelemetry-proto is not installed, or a variable is not valid.
    """

    def __init__(
        self,
        url: str,
        scenario: str,
        headers: str,
        environ: Mapping[str, str],
        tell: Callable[[str], None],
    ) -> None:
        try:
            from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as messages
        except ImportError as error:
            raise UsageError(
                "--otlp: opentelemetry-proto is not installed: in ssbench's checkout,"
                " pip install '.[otlp]'"
            ) from error
        self._messages: Any = messages
        given, path = _headers(headers, environ), _variable(environ, "CERTIFICATE")
        super().__init__(
            "--otlp",
            url or otlp_endpoint(environ),
            {**given, "Content-Type": "application/x-protobuf"},
            Secrets(given),
            tell,
            HttpSettings(
                cert_path=_variable(environ, "CLIENT_CERTIFICATE"),
                cert_key_path=_variable(environ, "CLIENT_KEY"),
                cacert_pem=read_bundle(path, "OTEL_EXPORTER_OTLP_CERTIFICATE") if path else "",
            ),
        )
        self._resource = {
            "service.name": environ.get("OTEL_SERVICE_NAME") or "ssbench",
            "service.version": __version__,
            "ssbench.scenario": scenario,
            **_pairs(environ.get("OTEL_RESOURCE_ATTRIBUTES", ""), "OTEL_RESOURCE_ATTRIBUTES"),
        }
        self._phases, self._began_ns = -1, 0
        self._thread.start()

    def show(self, state: LiveState) -> None:
        if state.progress is None:
            return
        if state.phases != self._phases:  # counts are those of a phase
            began_s = state.time_s - state.progress.elapsed_s
            self._phases, self._began_ns = state.phases, round(began_s * 1e9)
        resource: dict[str, Any] = dict(self._resource)
        if state.header is not None:
            run_id = state.header.run_id
            resource |= {"service.instance.id": run_id, "ssbench.run.id": run_id}
            resource |= {"ssbench.store": state.header.driver}
        if state.run is not None:
            number, name = state.run
            resource |= {"ssbench.run.number": number, "ssbench.run.name": name}
        scope = {"name": "ssbench", "version": __version__}
        request = self._messages.ExportMetricsServiceRequest(
            resource_metrics=[
                {
                    "resource": {"attributes": _attributes(resource)},
                    "scope_metrics": [
                        {"scope": scope, "metrics": [*_metrics(state, self._began_ns)]}
                    ],
                }
            ]
        )
        self._give(request.SerializeToString())

    def _check(self, content: bytes) -> None:
        try:
            said = self._messages.ExportMetricsServiceResponse.FromString(content).partial_success
        except Exception as error:  # protobuf's errors depend on its backend
            raise self._refused("a response that is not OTLP") from error
        if said.rejected_data_points:
            raise self._refused(
                f"{plural(said.rejected_data_points, 'data point')} rejected: "
                f"{said.error_message[:_MOST_SHOWN]}"
            )


def otlp_endpoint(environ: Mapping[str, str]) -> str:
    """The URL for metrics that OpenTelemetry's variables give.

    :raises UsageError: it is not one.
    """
    whole = environ.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
    name = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT" if whole else "OTEL_EXPORTER_OTLP_ENDPOINT"
    try:
        return otlp_url(environ.get(name) or "http://localhost:4318", is_whole=bool(whole))
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from error


def _variable(environ: Mapping[str, str], name: str) -> str:
    of_metrics = environ.get(f"OTEL_EXPORTER_OTLP_METRICS_{name}")
    return of_metrics or environ.get(f"OTEL_EXPORTER_OTLP_{name}", "")


def _headers(text: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The headers of a file, or of the environment.

    :raises UsageError: they are none; no value is shown.
    """
    what = "--otlp-headers" if text else "OTEL_EXPORTER_OTLP_HEADERS"
    found = _pairs(text or _variable(environ, "HEADERS"), what)
    for number, (name, value) in enumerate(found.items(), 1):
        where = f"{what}: header {number}"
        if not _HEADER.fullmatch(name) or not (value.isascii() and value.isprintable()):
            raise UsageError(f"{where} is not valid: give {_PAIRS}, of ASCII characters")
        if name.lower() in _OURS:
            raise UsageError(f"{where}: {name} is set by ssbench: leave it out")
    return found


def _pairs(text: str, what: str) -> dict[str, str]:
    """``NAME=VALUE,NAME=VALUE``, with values in percent-encoding; a new line is as good as a comma.

    :raises UsageError: it is not that; it is not shown.
    """
    found = {}
    for number, pair in enumerate(filter(None, map(str.strip, re.split("[,\n]", text))), 1):
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError(f'{what}: item {number} has no name or no "=": give {_PAIRS}')
        found[name.strip()] = unquote(value.strip())
    return found


def _attributes(values: Mapping[str, str | int]) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": {"int_value" if isinstance(value, int) else "string_value": value}}
        for key, value in values.items()
    ]


def _metrics(state: LiveState, began_ns: int) -> Iterator[dict[str, Any]]:
    """The metrics of a phase, as docs/reference/programs names them."""
    progress, phase = state.progress, PHASES[state.phase]
    assert progress is not None  # nosec B101 # for the type checker
    now = {"time_unix_nano": round(state.time_s * 1e9)}
    counted = {"start_time_unix_nano": began_ns, **now}

    def points(
        values: Mapping[Any, Any], names: Sequence[str], times: Mapping[str, int]
    ) -> dict[str, Any]:
        found = []
        for key, value in values.items():
            attributes = _attributes({"ssbench.phase": phase, **dict(zip(names, key, strict=True))})
            if isinstance(value, Mapping):
                data = _exponential(value)
            else:
                data = {"as_int" if isinstance(value, int) else "as_double": value}
            found.append({"attributes": attributes, **times, **data})
        return {"data_points": found}

    totals = Totals().plus(state.phase, progress, state.size_classes, state.identities)
    states = {(each,): count for each, count in workers_by_state(progress).items()}
    duration: Mapping[Any, Any] = {key[1:]: each for key, each in totals.latencies.items()}
    response = {(): progress.responses} if progress.responses else {}
    # All keys begin with the phase, which is one.
    for name, unit, values, attributes in _COUNTED:
        counts = {
            tuple(int(each) if attributes == (_STATUS,) else each for each in key[1:]): number
            for key, number in getattr(totals, values).items()
        }
        data = {**points(counts, attributes, counted), "aggregation_temporality": _CUMULATIVE}
        if counts:
            yield {"name": name, "unit": unit, "sum": {**data, "is_monotonic": True}}
    for name, histograms, names in (
        ("duration", duration, ("ssbench.operation", "ssbench.size_class")),
        ("response_time", response, ()),
    ):
        data = {**points(histograms, names, counted), "aggregation_temporality": _CUMULATIVE}
        if histograms:
            name = f"ssbench.operation.{name}"
            yield {"name": name, "unit": "s", "exponential_histogram": data}
    for name, unit, value in (
        ("ssbench.phase.elapsed", "s", progress.elapsed_s),
        ("ssbench.users", "{user}", progress.users),
        ("ssbench.throughput", "By/s", progress.bytes_rate),
        ("ssbench.arrival_rate", "{operation}/s", progress.target_rate),
        ("ssbench.late_operations", "{operation}", progress.late),
    ):
        if value is not None:
            yield {"name": name, "unit": unit, "gauge": points({(): value}, (), now)}
    workers = points(states, ("ssbench.worker.state",), now)
    yield {"name": "ssbench.workers", "unit": "{worker}", "gauge": workers}


def _exponential(counts: Mapping[int, int]) -> dict[str, Any]:
    """A data point's buckets: that of index i has what is above 2^(i / 2^scale), up to the next."""
    numbers: dict[int, int] = {}
    sum_s, zeros = 0.0, 0
    for bucket, number in counts.items():
        latency_s = middle_s(bucket)
        sum_s += number * latency_s
        if latency_s:
            index = ceil(log2(latency_s) * 2**_SCALE) - 1
            numbers[index] = numbers.get(index, 0) + number
        else:
            zeros += number
    first = min(numbers, default=0)
    dense = [numbers.get(index, 0) for index in range(first, max(numbers, default=-1) + 1)]
    return {
        "count": sum(counts.values()),
        "sum": sum_s,
        "scale": _SCALE,
        "zero_count": zeros,
        "positive": {"offset": first, "bucket_counts": dense},
    }
