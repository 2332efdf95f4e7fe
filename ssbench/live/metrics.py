"""``--metrics-port``: figures of a master or a worker for Prometheus, at ``/metrics``.

They are put together in the server's threads, when they are asked for; the load's own threads do
nothing for them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import accumulate
from threading import Thread
from typing import TYPE_CHECKING, Any, Protocol

from ssbench import __version__
from ssbench.core.errors import SsbenchError, UsageError
from ssbench.core.live import RunProgress, middle_s
from ssbench.core.model import ErrorKind, Phase
from ssbench.core.operations import row_of
from ssbench.core.stats.host_metrics import FIGURES, core_count, core_name
from ssbench.live.watch import PHASES, Sink, Watch, workers_by_state
from ssbench.live.web import BoundedServer, QuietHandler

if TYPE_CHECKING:
    from prometheus_client import Metric

    from ssbench.worker.worker import Worker

_NO_ERRORS = (ErrorKind.NONE, ErrorKind.LOST_RACE)
_LOOPBACK = "127.0.0.1"
#: Upper bounds of buckets. A latency is known within 3 %, so it may count for the next one.
_BOUNDS_S = [
    round(step * 10.0**exponent, 9) for exponent in range(-4, 2) for step in (1, 1.5, 2, 3, 5, 7)
]
#: Figures of a process; all others are of its host.
_OF_PROCESS = ("process_", "loop_")


class MetricSource(Protocol):
    """What prometheus_client collects from, in any thread."""

    def collect(self) -> Iterator[Metric]:
        """The figures now."""


@contextmanager
def metrics_server(address: tuple[str, int], collector: MetricSource) -> Iterator[str]:
    """Serve a collector's figures, and those of this process; gives the URL.

    :param address: of this host; host "": loopback.
    :raises UsageError: prometheus_client is not installed.
    :raises SsbenchError: the address can't be had.
    """
    try:
        from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
    except ImportError as error:
        raise UsageError(
            "--metrics-port: prometheus_client is not installed: in ssbench's checkout,"
            " pip install '.[prometheus]'"
        ) from error
    registry = CollectorRegistry()
    registry.register(collector)
    ProcessCollector(registry=registry)
    host, port = address[0] or _LOOPBACK, address[1]
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        server = _Server((host, port), make_wsgi_app(registry))
    except OSError as error:
        reason = error.strerror or error
        raise SsbenchError(f"--metrics-port {shown}: can't listen there: {reason}") from error
    thread = Thread(target=server.serve_forever, name="ssbench-metrics", daemon=True)
    thread.start()
    try:
        yield f"http://{shown}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(BoundedServer):
    """The limit of connections of ``--web``."""

    def __init__(self, address: tuple[str, int], app: Callable[..., Iterable[bytes]]) -> None:
        self.app = app  #: of WSGI
        super().__init__(address, _Handler)


class _Handler(QuietHandler):
    """Not that of wsgiref, which prints a traceback for a client that reads nothing."""

    server: _Server

    def do_GET(self) -> None:
        from prometheus_client.exposition import choose_encoder  # few runs need it

        accept = self.headers.get("Accept", "")
        try:
            choose_encoder(accept)
        except TypeError:  # for a version that is none
            self.send_error(406)
            return
        path, _, query = self.path.partition("?")
        environ = {
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "HTTP_ACCEPT": accept,
            "HTTP_ACCEPT_ENCODING": self.headers.get("Accept-Encoding"),
        }
        body = b"".join(self.server.app(environ, self._start))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.send_body(body)

    do_HEAD = do_OPTIONS = do_POST = do_GET  # the app says which it has

    def _start(self, status: str, headers: Sequence[tuple[str, str]]) -> None:
        self.send_response(int(status.split()[0]))
        for name, value in headers:
            self.send_header(name, value)


class RunMetrics(Sink):
    """A run, or the runs of a series: counts go on from one to the next.

    :param watch: its state is read when it is asked for.
    :param scenario: its name.
    """

    def __init__(self, watch: Watch, scenario: str) -> None:
        self._watch = watch
        self._scenario = scenario

    def collect(self) -> Iterator[Metric]:
        state = self._watch.state  # read once: it is replaced meanwhile
        phase, progress = state.phase, state.progress
        number, name = state.run or ("", "")
        yield _gauge(
            "ssbench_info", "What runs", ["version", "scenario", "run", "run_name"],
            {(__version__, self._scenario, str(number), name): 1},
        )  # fmt: skip
        phases = {(text,): each is phase for each, text in PHASES.items()}
        yield _gauge("ssbench_phase", "1: the phase that runs", ["phase"], phases)
        if progress is not None:
            yield from _of_progress(progress)
        totals = state.totals
        yield _counter(
            "ssbench_operations",
            "Operations that ended",
            ["phase", "operation", "result"],
            totals.outcomes,
        )
        # All causes from the start: a counter that appears with the first error has no rate then.
        causes = [(PHASES[Phase.RUN], kind.label) for kind in ErrorKind if kind not in _NO_ERRORS]
        yield _counter(
            "ssbench_errors", "Failed operations by cause", ["phase", "cause"],
            {each: totals.errors[each] for each in dict.fromkeys([*causes, *totals.errors])},
        )  # fmt: skip
        yield _counter(
            "ssbench_error_statuses", "HTTP statuses of failed operations", ["phase", "status"],
            totals.statuses,
        )  # fmt: skip
        if totals.identities:
            yield _counter(
                "ssbench_identity_operations", "Operations that ended, by identity",
                ["phase", "identity", "result"], totals.identities,
            )  # fmt: skip
        yield _histogram(
            "ssbench_operation_duration_seconds", "Service time of successful operations",
            ["phase", "operation", "size_class"], totals.latencies,
        )  # fmt: skip
        if totals.responses:
            yield _histogram(
                "ssbench_operation_response_time_seconds", "Response time (open loop)", ["phase"],
                {(phase,): counts for phase, counts in totals.responses.items()},
            )  # fmt: skip


def _of_progress(progress: RunProgress) -> Iterator[Metric]:
    figures = {
        "ssbench_elapsed_seconds": (progress.elapsed_s, "Since the load of the phase began"),
        "ssbench_remaining_seconds": (progress.remaining_s, "Until its end, where that is known"),
        "ssbench_users": (progress.users, "Users that run"),
        "ssbench_workers": (progress.workers, "Workers that run users"),
        "ssbench_bytes_per_second": (progress.bytes_rate, "Over the last 5 s"),
        "ssbench_due_operations_per_second": (progress.target_rate, "Arrival rate (open loop)"),
        "ssbench_late_operations": (
            progress.late, "Operations past their due time that have not started (open loop)",
        ),
    }  # fmt: skip
    for name, (value, text) in figures.items():
        if value is not None:
            yield _gauge(name, text, [], {(): value})
    latencies = {("all", "0.5"): progress.p50_s, ("all", "0.99"): progress.p99_s}
    for number, each in progress.operations.items():
        operation = row_of(number).name
        latencies |= {(operation, "0.5"): each.p50_s, (operation, "0.99"): each.p99_s}
    yield _quantiles(
        "ssbench_latency_seconds", "Deprecated: see ssbench_operation_duration_seconds",
        ["operation", "quantile"], latencies,
    )  # fmt: skip
    yield _quantiles(
        "ssbench_response_seconds", "Deprecated: see ssbench_operation_response_time_seconds",
        ["quantile"],
        {("0.5",): progress.response_p50_s, ("0.99",): progress.response_p99_s},
    )  # fmt: skip
    states = {(state,): count for state, count in workers_by_state(progress).items()}
    yield _gauge("ssbench_worker_states", "Workers by state", ["state"], states)


class WorkerMetrics:
    """A worker and its host."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def collect(self) -> Iterator[Metric]:
        load = self._worker.load()
        identity = {(__version__, self._worker.worker_id): 1}
        yield _gauge("ssbench_worker_info", "Which worker", ["version", "worker"], identity)
        for name, value, text in (
            ("users", load.users, "Users of the phase"),
            ("busy_users", load.busy, "Operations in flight"),
            ("queued_jobs", load.queued, "Jobs that wait for a user or their time"),
        ):
            yield _gauge(f"ssbench_worker_{name}", text, [], {(): value})
        ended = {} if load.phase is Phase.IDLE else {(PHASES[load.phase],): load.ended}
        yield _counter(
            "ssbench_worker_operations", "Operations of the phase that ended", ["phase"], ended
        )
        figures = self._worker.host_figures()
        for name, text in FIGURES.items():
            if name in figures and name != "interval_s":
                yield _gauge(_metric_name(name), text, [], {(): figures[name]})
        cores = {(str(core),): figures[core_name(core)] for core in range(core_count(figures))}
        yield _gauge("ssbench_host_core_percent", "Each core", ["core"], cores)


def _family(
    kind: str, name: str, text: str, labels: Sequence[str], values: Mapping[Any, float | None]
) -> Metric:
    """A value for each combination of labels; None: unknown, and left out."""
    from prometheus_client import core

    family: Any = getattr(core, f"{kind}MetricFamily")(name, text, labels=labels)
    for each, value in values.items():
        if value is not None:
            family.add_metric(each, value)
    return family  # type: ignore[no-any-return]


_gauge, _counter = partial(_family, "Gauge"), partial(_family, "Counter")


def _quantiles(
    name: str, text: str, labels: Sequence[str], values: Mapping[Any, float | None]
) -> Metric:
    """A summary without sum and count; the last label is ``quantile``."""
    from prometheus_client.core import SummaryMetricFamily

    summary = SummaryMetricFamily(name, text, labels=labels)
    for each, value in values.items():
        if value is not None:
            summary.add_sample(name, dict(zip(labels, each, strict=True)), value)
    return summary


def _histogram(
    name: str, text: str, labels: Sequence[str], values: Mapping[Any, Mapping[int, int]]
) -> Metric:
    from prometheus_client.core import HistogramMetricFamily

    histogram = HistogramMetricFamily(name, text, labels=labels)
    for each, counts in values.items():
        numbers, sum_s = [0] * (len(_BOUNDS_S) + 1), 0.0
        for bucket, number in counts.items():
            latency_s = middle_s(bucket)
            numbers[bisect_left(_BOUNDS_S, latency_s)] += number
            sum_s += latency_s * number
        bounds = [*map(str, _BOUNDS_S), "+Inf"]
        histogram.add_metric(each, list(zip(bounds, accumulate(numbers), strict=True)), sum_s)
    return histogram


def _metric_name(figure: str) -> str:
    """``ssbench_host_cpu_percent``; Prometheus writes units in full."""
    if figure.endswith("_s"):
        figure = f"{figure.removesuffix('_s')}_{'second' if '_per_s' in figure else 'seconds'}"
    owner = "worker" if figure.startswith(_OF_PROCESS) else "host"
    return f"ssbench_{owner}_{figure}"
