"""``--metrics-port``: figures of a master or a worker for Prometheus, at ``/metrics``.

They are put together in the server's threads, when they are asked for. The load's own threads do
nothing for them, but for one assignment with each state of a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple, Protocol
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from ssbench import __version__
from ssbench.core.errors import SsbenchError, UsageError
from ssbench.core.live import Observer, RunProgress
from ssbench.core.model import ErrorKind, Phase, error_label
from ssbench.core.operations import row_of
from ssbench.core.stats.host_metrics import FIGURES, core_count, core_name
from ssbench.live.json_lines import PHASES
from ssbench.live.web_server import SOCKET_TIMEOUT_S, BoundedServer

if TYPE_CHECKING:
    from prometheus_client import Metric
    from prometheus_client.core import GaugeMetricFamily

    from ssbench.worker.worker import Worker

_LOOPBACK = "127.0.0.1"
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
        server = make_server(host, port, make_wsgi_app(registry), _Server, _Handler)
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


class _Server(BoundedServer, WSGIServer):
    """The limit of connections of ``--web``."""


class _Handler(WSGIRequestHandler):
    timeout = SOCKET_TIMEOUT_S

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged."""


class _Totals(NamedTuple):
    """Operations; replaced and never changed, since other threads read them."""

    outcomes: Counter[tuple[str, str, str]] = Counter()  #: phase, operation, result -> number
    errors: Counter[tuple[str, str]] = Counter()  #: phase, cause -> number
    statuses: Counter[tuple[str, str]] = Counter()  #: phase, HTTP status -> number

    def plus(self, phase: Phase, progress: RunProgress) -> _Totals:
        name = PHASES[phase]
        outcomes, errors = Counter(self.outcomes), Counter(self.errors)
        statuses = Counter(self.statuses)
        for number, each in progress.operations.items():
            outcomes[name, row_of(number).name, "success"] += each.done
            outcomes[name, row_of(number).name, "failure"] += each.failed
        for kind, count in progress.errors_by_cause.items():
            errors[name, error_label(kind)] += count
        for status, count in progress.errors_by_status.items():
            statuses[name, str(status)] += count
        return _Totals(outcomes, errors, statuses)


class _Now(NamedTuple):
    """All that a scrape of a master shows; it reads one reference, once."""

    phase: Phase
    progress: RunProgress | None  #: None: the phase has only begun, or is over
    before: _Totals  #: of the phases that are over
    run: tuple[str, str] = ("", "")  #: number and name, of a run of a series


class RunMetrics(Observer):
    """A run, or the runs of a series: counts go on from one to the next.

    :param scenario: its name.
    """

    wants_counts = True

    def __init__(self, scenario: str) -> None:
        self._scenario = scenario
        self._now = _Now(Phase.IDLE, None, _Totals())

    def start_run(self, number: int, name: str) -> None:
        self._now = self._now._replace(run=(str(number), name))

    def start_phase(self, phase: Phase, total: int | None = None, title: str = "") -> None:
        self._now = self._now._replace(phase=phase, progress=None)

    def update(self, progress: RunProgress) -> None:
        self._now = self._now._replace(progress=progress)

    def end_phase(self) -> None:
        phase, progress, before, run = self._now
        if progress is not None:
            before = before.plus(phase, progress)
        self._now = _Now(Phase.IDLE, None, before, run)

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        phase, progress, totals, run = self._now
        info = GaugeMetricFamily(
            "ssbench_info", "What runs", labels=["version", "scenario", "run", "run_name"]
        )
        info.add_metric([__version__, self._scenario, *run], 1)
        yield info
        phases = GaugeMetricFamily("ssbench_phase", "1: the phase that runs", labels=["phase"])
        for each, name in PHASES.items():
            phases.add_metric([name], each is phase)
        yield phases
        if progress is not None:
            totals = totals.plus(phase, progress)
            yield from _of_progress(progress)
        operations = CounterMetricFamily(
            "ssbench_operations", "Operations that ended", labels=["phase", "operation", "result"]
        )
        for labels, count in totals.outcomes.items():
            operations.add_metric(labels, count)
        yield operations
        # All causes from the start: a counter that appears with the first error has no rate then.
        causes = [(PHASES[Phase.RUN], kind.label) for kind in ErrorKind if kind]
        errors = CounterMetricFamily(
            "ssbench_errors", "Failed operations by cause", labels=["phase", "cause"]
        )
        for cause in dict.fromkeys([*causes, *totals.errors]):
            errors.add_metric(cause, totals.errors[cause])
        yield errors
        statuses = CounterMetricFamily(
            "ssbench_error_statuses", "HTTP statuses of failed operations",
            labels=["phase", "status"],
        )  # fmt: skip
        for status, count in totals.statuses.items():
            statuses.add_metric(status, count)
        yield statuses


def _of_progress(progress: RunProgress) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

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
            yield GaugeMetricFamily(name, text, value=value)
    latencies = GaugeMetricFamily(
        "ssbench_latency_seconds", "Service time over the last 5 s, within 3 %",
        labels=["operation", "quantile"],
    )  # fmt: skip
    of_all = progress.p50_s, progress.p99_s
    for name, seconds in (
        ("all", of_all),
        *((row_of(at).name, (each.p50_s, each.p99_s)) for at, each in progress.operations.items()),
    ):
        _add_quantiles(latencies, [name], seconds)
    yield latencies
    responses = GaugeMetricFamily(
        "ssbench_response_seconds", "Response time likewise (open loop)", labels=["quantile"]
    )
    _add_quantiles(responses, [], (progress.response_p50_s, progress.response_p99_s))
    yield responses
    states = GaugeMetricFamily("ssbench_worker_states", "Workers by state", labels=["state"])
    for state, count in Counter(each.state for each in progress.workers_seen).items():
        states.add_metric([state], count)
    yield states


def _add_quantiles(
    family: GaugeMetricFamily, labels: Sequence[str], seconds: Sequence[float | None]
) -> None:
    for quantile, value in zip(("0.5", "0.99"), seconds, strict=True):
        if value is not None:
            family.add_metric([*labels, quantile], value)


class WorkerMetrics:
    """A worker and its host."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        load = self._worker.load()
        info = GaugeMetricFamily(
            "ssbench_worker_info", "Which worker", labels=["version", "worker"]
        )
        info.add_metric([__version__, self._worker.worker_id], 1)
        yield info
        yield GaugeMetricFamily("ssbench_worker_users", "Users of the phase", value=load.users)
        yield GaugeMetricFamily(
            "ssbench_worker_busy_users", "Operations in flight", value=load.busy
        )
        yield GaugeMetricFamily(
            "ssbench_worker_queued_jobs", "Jobs that wait for a user or their time",
            value=load.queued,
        )  # fmt: skip
        operations = CounterMetricFamily(
            "ssbench_worker_operations", "Operations of the phase that ended", labels=["phase"]
        )
        if load.phase is not Phase.IDLE:
            operations.add_metric([PHASES[load.phase]], load.ended)
        yield operations
        figures = self._worker.host_figures()
        for name, text in FIGURES.items():
            if name in figures and name != "interval_s":
                yield GaugeMetricFamily(_metric_name(name), text, value=figures[name])
        cores = GaugeMetricFamily("ssbench_host_core_percent", "Each core", labels=["core"])
        for core in range(core_count(figures)):
            cores.add_metric([str(core)], figures[core_name(core)])
        yield cores


def _metric_name(figure: str) -> str:
    """``ssbench_host_cpu_percent``; Prometheus writes units in full."""
    if figure.endswith("_s"):
        figure = f"{figure.removesuffix('_s')}_{'second' if '_per_s' in figure else 'seconds'}"
    owner = "worker" if figure.startswith(_OF_PROCESS) else "host"
    return f"ssbench_{owner}_{figure}"
