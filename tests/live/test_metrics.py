"""--metrics-port: what Prometheus reads of masters and workers."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from io import RawIOBase
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client.core import InfoMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families

from ssbench import __version__
from ssbench.core.errors import SsbenchError, UsageError
from ssbench.core.live import OperationProgress, buckets
from ssbench.core.model import ErrorKind, Phase
from ssbench.core.operations import ENSURE, READ
from ssbench.live.metrics import RunMetrics, WorkerMetrics, metrics_server
from ssbench.live.watch import Watch
from ssbench.live.web import QuietHandler
from ssbench.worker.worker import WorkerLoad
from tests.cli.shell import Shell
from tests.live.test_json_lines import STATE
from tests.ports import held_port
from tests.report.runs import header
from tests.servers.programs import path_of

pytestmark = pytest.mark.usefixtures("forked_workers")

READS = "ssbench_operations_total", ("READ", "run", "success")


TWO = {0: OperationProgress(30, 3, 1.0), 1: OperationProgress(7, 0, 4.5)}


@pytest.fixture
def metrics() -> Watch:
    return Watch()


@pytest.fixture
def scrape(metrics: Watch) -> Iterator[Callable[[], dict[Any, float]]]:
    """(name, values of the labels by their names) -> value."""
    with metrics_server(("", held_port()), RunMetrics(metrics, "small")) as url:
        yield lambda: scraped(url)


def scraped(url: str) -> dict[Any, float]:
    with urllib.request.urlopen(url, timeout=30) as response:
        text = response.read().decode()
    return {
        (sample.name, tuple(value for _label, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_identities_have_counters_where_there_are_several(
    metrics: Watch, scrape: Callable[[], dict[Any, float]]
) -> None:
    metrics.start_phase(Phase.RUN)
    metrics.update(STATE)
    name = "ssbench_identity_operations_total"
    assert not [each for each, _ in scrape() if each == name]
    metrics.describe_run(header(store={"identities": ["ann", "7"]}, scenario={"sizes": []}))
    metrics.update(replace(STATE, identities=TWO))
    assert {key: value for key, value in scrape().items() if key[0] == name} == {
        (name, ("ann", "run", "success")): 30, (name, ("ann", "run", "failure")): 3,
        (name, ("7", "run", "success")): 7, (name, ("7", "run", "failure")): 0,
    }  # fmt: skip


def test_the_state_of_a_phase_is_served(
    metrics: Watch, scrape: Callable[[], dict[Any, float]]
) -> None:
    metrics.start_phase(Phase.RUN)
    metrics.update(STATE)
    found = scrape()
    assert found[READS] == 37
    assert found["ssbench_operations_total", ("READ", "run", "failure")] == 3
    assert found["ssbench_errors_total", ("status", "run")] == 3
    assert found["ssbench_errors_total", ("network timeout", "run")] == 0
    assert found["ssbench_phase", ("run",)] == 1
    assert found["ssbench_phase", ("populate",)] == 0
    assert found["ssbench_error_statuses_total", ("run", "503")] == 3
    assert found["ssbench_latency_seconds", ("all", "0.99")] == 0.02
    assert found["ssbench_latency_seconds", ("READ", "0.5")] == 0.004
    assert ("ssbench_latency_seconds", ("READ", "0.99")) not in found  # unknown
    assert found["ssbench_bytes_per_second", ()] == 1e6
    assert found["ssbench_worker_states", ("running",)] == 2
    assert found["ssbench_users", ()] == 8
    assert found["process_cpu_seconds_total", ()] > 0
    assert ("ssbench_due_operations_per_second", ()) not in found
    metrics.update(replace(STATE, target_rate=20.0, late=2, response_p99_s=0.5))
    found = scrape()
    assert found["ssbench_response_seconds", ("0.99",)] == 0.5
    assert found["ssbench_due_operations_per_second", ()] == 20
    assert found["ssbench_late_operations", ()] == 2


def test_counts_go_on_over_the_phases_and_runs_of_a_series(
    metrics: Watch, scrape: Callable[[], dict[Any, float]]
) -> None:
    populate = replace(STATE, operations={int(ENSURE): OperationProgress(5, 0)}, errors_by_cause={})
    for number, name in ((1, "users 4"), (2, "users 8")):
        metrics.start_run(number, name)
        metrics.start_phase(Phase.POPULATE, 5)
        metrics.update(populate)
        metrics.end_phase()
        assert ("ssbench_users", ()) not in scrape()  # nobody runs
        metrics.start_phase(Phase.RUN)
        metrics.update(STATE)
        metrics.end_phase()
    found = scrape()
    assert found["ssbench_info", ("2", "users 8", "small", __version__)] == 1
    assert found[READS] == 74
    assert found["ssbench_operations_total", ("ENSURE", "populate", "success")] == 10
    assert found["ssbench_errors_total", ("status", "run")] == 6
    metrics.start_phase(Phase.RUN)
    assert scrape()[READS] == 74
    other = int(ErrorKind.STATUS) + 900  # of a later release
    now = {int(READ): OperationProgress(1, 0, lost_races=4)}
    metrics.update(replace(STATE, operations=now, errors_by_cause={other: 1}))
    found = scrape()
    assert (found[READS], found["ssbench_errors_total", ("error 901", "run")]) == (75, 1)
    assert ("ssbench_errors_total", ("lost race", "run")) not in found
    assert found["ssbench_operations_total", ("READ", "run", "lost_race")] == 2 * 2 + 4


def test_histograms_go_on_over_runs_and_name_size_classes(
    metrics: Watch, scrape: Callable[[], dict[Any, float]]
) -> None:
    duration = "ssbench_operation_duration_seconds"
    counts = Counter(buckets([2_000_000] * 3 + [0] + [400_000_000_000]))
    state = replace(STATE, latencies={(int(READ), 0): counts}, responses=buckets([60_000_000]))
    metrics.describe_run(header(scenario={"sizes": [{"name": "tiny"}]}))
    for _ in range(2):
        metrics.start_phase(Phase.RUN)
        metrics.update(state)
        metrics.end_phase()
    found = scrape()
    below = {
        labels[0]: value for (name, labels), value in found.items() if name == f"{duration}_bucket"
    }
    assert (len(below), below["0.0001"], below["0.0015"]) == (37, 2, 2)
    assert (below["0.003"], below["70.0"], below["+Inf"]) == (8, 8, 10)
    assert found[f"{duration}_count", ("READ", "run", "tiny")] == 10
    assert found[f"{duration}_sum", ("READ", "run", "tiny")] == pytest.approx(800, rel=0.03)
    response = "ssbench_operation_response_time_seconds_bucket"
    assert (found[response, ("0.05", "run")], found[response, ("0.07", "run")]) == (0, 2)


@pytest.mark.program("promtool")
def test_promtool_finds_no_fault_in_what_is_served() -> None:
    watch = Watch()
    watch.start_phase(Phase.RUN)
    watch.update(replace(STATE, latencies={(int(READ), 0): {0: 1}}, responses={0: 1}))
    with metrics_server(("", held_port()), RunMetrics(watch, "small")) as url:
        text = urllib.request.urlopen(url, timeout=30).read()
    found = subprocess.run(
        [path_of("promtool"), "check", "metrics"], input=text, capture_output=True, check=False
    )
    assert (found.returncode, found.stdout, found.stderr) == (0, b"", b"")


def test_a_run_serves_its_metrics_and_frees_the_port(shell: Shell) -> None:
    port = held_port()
    found: list[dict[Any, float]] = []

    def watch() -> None:
        while not any(each.get(("ssbench_phase", ("run",))) for each in found):
            try:
                found.append(scraped(f"http://127.0.0.1:{port}/metrics"))
            except OSError:
                assert not done.wait(0.05)

    done = threading.Event()
    thread = threading.Thread(target=watch)
    thread.start()
    assert shell.run("-q", "-R", "--metrics-port", port, "-r", "2") == (0, "", "")
    done.set()
    thread.join()
    assert found[-1]["ssbench_info", ("", "", "own", __version__)] == 1
    with metrics_server(("", port), RunMetrics(Watch(), "next")):
        pass


def test_a_port_that_is_taken_is_an_error() -> None:
    port = held_port()
    with (
        metrics_server(("", port), RunMetrics(Watch(), "one")),
        pytest.raises(SsbenchError, match=rf"--metrics-port 127.0.0.1:{port}: can't listen there"),
        metrics_server(("", port), RunMetrics(Watch(), "other")),
    ):
        pass


def test_connections_are_bounded_and_those_that_end_make_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(QuietHandler, "timeout", None)
    port = held_port()
    with metrics_server(("", port), RunMetrics(Watch(), "one")) as url:
        with ExitStack() as opened:
            address = "127.0.0.1", port
            idle = [opened.enter_context(socket.create_connection(address, 20)) for _ in range(70)]
            assert idle[-1].recv(1) == b"", "closed at once"
        while True:
            with suppress(OSError):  # until the server has seen the end of the others
                assert scraped(url)
                break


def test_a_version_that_is_none_is_not_acceptable(capfd: pytest.CaptureFixture[str]) -> None:
    with metrics_server(("", held_port()), RunMetrics(Watch(), "one")) as url:
        for kind in ("application/openmetrics-text", "text/plain"):
            asked = urllib.request.Request(url, headers={"Accept": f"{kind}; version=x"})
            with pytest.raises(urllib.error.HTTPError, match="406"):
                urllib.request.urlopen(asked, timeout=30)
        assert scraped(url)
    assert capfd.readouterr() == ("", "")


class Large:
    """A collector of more than the sockets of two sides hold."""

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily("large", "x" * (32 << 20))


@pytest.mark.parametrize("request_", [b"GET /metrics HTTP/1.0\r\n\r\n", b""])
def test_who_reads_or_sends_nothing_is_given_up_without_a_word(
    request_: bytes, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert QuietHandler.timeout == 10
    monkeypatch.setattr(QuietHandler, "timeout", 0.1)
    port, others = held_port(), set(threading.enumerate())
    with metrics_server(("", port), Large()), socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", port))
        client.sendall(request_)
        client.recv(1)
        for thread in set(threading.enumerate()) - others:
            if thread.name != "ssbench-metrics":
                thread.join(60)
                assert not thread.is_alive()
    assert capfd.readouterr() == ("", "")


class SlowLink(RawIOBase):
    """Takes so many bytes in the time that a socket allows for one call."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0

    def write(self, data: Any) -> int:
        if len(data) > self.most:
            raise TimeoutError
        self.taken += len(data)
        return len(data)


@pytest.mark.parametrize("size", [0, 1, 20_000, 100_001])
def test_a_long_answer_over_a_slow_link_is_not_given_up(size: int) -> None:
    handler = QuietHandler.__new__(QuietHandler)
    handler.wfile = link = SlowLink(20_000)
    handler.send_body(bytes(size))
    assert link.taken == size


@pytest.mark.program("ipv6")
def test_ipv6_is_served() -> None:
    with metrics_server(("::1", held_port("::1")), RunMetrics(Watch(), "one")) as url:
        assert url.startswith("http://[::1]:")
        assert scraped(url)["ssbench_phase", ("containers",)] == 1


def test_without_its_extra_it_is_a_usage_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with (
        pytest.raises(UsageError, match=r"pip install '\.\[prometheus\]'"),
        metrics_server(("", 1), RunMetrics(Watch(), "one")),
    ):
        pass


class FarWorker:
    """A worker in its run phase."""

    worker_id = "far"

    def __init__(self, load: WorkerLoad) -> None:
        self._load = load

    def load(self) -> WorkerLoad:
        return self._load

    def host_figures(self) -> dict[str, float]:
        return {
            "interval_s": 1.0, "cpu_percent": 50.0, "loop_lag_max_s": 0.25,
            "process_rss_bytes": 7e6, "disk_read_bytes_per_s": 9.0,
            "core_0_percent": 20.0, "core_1_percent": 80.0,
        }  # fmt: skip


def test_a_worker_serves_its_load_and_its_host() -> None:
    worker = FarWorker(WorkerLoad(Phase.RUN, users=4, busy=3, queued=2, ended=99))
    with metrics_server(("", held_port()), WorkerMetrics(worker)) as url:
        found = scraped(url)
    assert found["ssbench_worker_info", (__version__, "far")] == 1
    assert found["ssbench_worker_users", ()] == 4
    assert found["ssbench_worker_busy_users", ()] == 3
    assert found["ssbench_worker_queued_jobs", ()] == 2
    assert found["ssbench_worker_operations_total", ("run",)] == 99
    assert found["ssbench_host_cpu_percent", ()] == 50
    assert found["ssbench_worker_loop_lag_max_seconds", ()] == 0.25
    assert found["ssbench_worker_process_rss_bytes", ()] == 7e6
    assert found["ssbench_host_disk_read_bytes_per_second", ()] == 9
    assert found["ssbench_host_core_percent", ("1",)] == 80
    assert not [name for name, _labels in found if "interval" in name]
    with metrics_server(("", held_port()), WorkerMetrics(FarWorker(WorkerLoad()))) as url:
        found = scraped(url)  # between phases
    assert found["ssbench_worker_users", ()] == 0
    assert "ssbench_worker_operations_total" not in {name for name, _labels in found}
