"""--otlp: what a collector gets, decoded by OpenTelemetry's own messages; none delays a run.

No collector is among the servers of the tests: it takes more than 15 minutes to compile.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ssbench.core.errors import UsageError
from ssbench.core.live import buckets
from ssbench.core.model import Phase
from ssbench.core.operations import READ
from ssbench.core.option import otlp_url
from ssbench.live import push
from ssbench.live.push import Otlp, otlp_endpoint
from ssbench.live.watch import Watch
from tests.cli.shell import Shell
from tests.fakes.receiver import Receiver, receiving
from tests.fakes.scripted_server import ScriptedServer
from tests.fakes.served_pool import dripping
from tests.live.test_json_lines import STATE, Clock
from tests.live.test_metrics import TWO
from tests.ports import held_port
from tests.report.runs import header

messages: Any = pytest.importorskip("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
pytestmark = pytest.mark.usefixtures("forked_workers")

KEY = "s3cret-key"


def url_of(collector: Receiver) -> str:
    return f"http://127.0.0.1:{collector.server_port}/v1/metrics"


def exports(collector: Receiver) -> list[Any]:
    parse = messages.ExportMetricsServiceRequest.FromString
    return [parse(body) for _, _, body in collector.requests]


@pytest.fixture
def collector() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def run_of(
    url: str,
    state: Any = STATE,
    headers: str = "",
    environ: Mapping[str, str] = {},
    store: Mapping[str, Any] = {},
) -> list[str]:
    """Shows a state and the end of its phase; what was told."""
    told: list[str] = []
    clock = Clock()
    watch = Watch(clock, lambda: 1_700_000_000.5)
    watch.add(Otlp(url, "small", headers, environ, told.append))
    with watch:
        watch.describe_run(
            header(run_id="abc", driver="s3", store=store, scenario={"sizes": [{"name": "t"}]})
        )
        watch.start_run(2, "users 8")
        watch.start_phase(Phase.RUN)
        clock.now_s += 1
        watch.update(state)
    return told


def values(attributes: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in attributes}


def points_of(request: Any) -> dict[str, tuple[str, str, list[Any]]]:
    """Name of a metric -> unit, kind, points."""
    (resource,) = request.resource_metrics
    (scope,) = resource.scope_metrics
    assert scope.scope.name == "ssbench"
    return {
        each.name: (each.unit, kind, list(getattr(each, kind).data_points))
        for each in scope.metrics
        for kind in [each.WhichOneof("data")]
    }


def test_identities_have_sums_where_there_are_several(collector: Receiver) -> None:
    names = ["ann", "7"]
    run_of(url_of(collector), replace(STATE, identities=TWO), store={"identities": names})
    run_of(url_of(collector))
    several, *_, one = exports(collector)
    unit, kind, points = points_of(several)["ssbench.identity.operations"]
    assert (unit, kind) == ("{operation}", "sum")
    found = [(values(each.attributes), each.as_int) for each in points]
    assert [(each["ssbench.identity"], each["ssbench.outcome"], n) for each, n in found] == [
        ("ann", "success", 30), ("ann", "failure", 3), ("7", "success", 7), ("7", "failure", 0),
    ]  # fmt: skip
    assert "ssbench.identity.operations" not in points_of(one)


def test_a_collector_gets_sums_gauges_and_histograms_of_each_second(collector: Receiver) -> None:
    latencies = {(int(READ), 0): buckets([0, 2_000_000, 2_000_000, 500_000_000])}
    state = replace(STATE, latencies=latencies, responses=buckets([3_000_000_000]))
    assert (
        run_of(url_of(collector), state, environ={"OTEL_RESOURCE_ATTRIBUTES": "team=a%20b"}) == []
    )
    assert [path for path, _, _ in collector.requests] == ["/v1/metrics"] * 2
    _, headers, _ = collector.requests[0]
    request = exports(collector)[0]
    assert headers["Content-Type"] == "application/x-protobuf"
    resource = values(request.resource_metrics[0].resource.attributes)
    assert resource.pop("service.version")
    assert resource == {
        "service.name": "ssbench", "service.instance.id": "abc", "ssbench.scenario": "small",
        "ssbench.store": "s3", "ssbench.run.id": "abc", "ssbench.run.number": 2,
        "ssbench.run.name": "users 8", "team": "a b",
    }  # fmt: skip
    found = points_of(request)
    unit, kind, points = found["ssbench.operations"]
    assert (unit, kind) == ("{operation}", "sum")
    assert {values(each.attributes)["ssbench.outcome"]: each.as_int for each in points} == {
        "success": 37,
        "failure": 3,
        "lost_race": 2,
    }
    assert {each.start_time_unix_nano for each in points} == {1_699_999_998_000_000_000}
    (refused,) = found["ssbench.error.responses"][2]
    assert values(refused.attributes)["http.response.status_code"] == 503
    assert found["ssbench.users"][2][0].as_int == 8
    assert "ssbench.arrival_rate" not in found
    unit, kind, (duration,) = found["ssbench.operation.duration"]
    assert (unit, kind) == ("s", "exponential_histogram")
    assert values(duration.attributes) == {
        "ssbench.phase": "run", "ssbench.operation": "READ", "ssbench.size_class": "t"
    }  # fmt: skip
    assert (duration.count, duration.zero_count) == (4, 1)
    assert duration.sum == pytest.approx(0.504, rel=0.03)
    upper = {
        2 ** ((duration.positive.offset + at + 1) / 2**duration.scale): number
        for at, number in enumerate(duration.positive.bucket_counts)
        if number
    }
    assert [*upper.values()] == [2, 1]
    assert [*upper] == pytest.approx([0.002, 0.5], rel=0.06)
    assert found["ssbench.operation.response_time"][2][0].count == 1


def test_a_phase_without_results_has_none_of_their_metrics(collector: Receiver) -> None:
    empty = replace(STATE, operations={}, errors_by_cause={}, errors_by_status={})
    assert run_of(url_of(collector), empty) == []
    assert {name.split(".")[1] for name in points_of(exports(collector)[0])} == {
        "phase", "users", "throughput", "late_operations", "workers"
    }  # fmt: skip


def test_headers_come_from_a_file_or_the_environment(collector: Receiver) -> None:
    variables = {"OTEL_EXPORTER_OTLP_HEADERS": f"api-key={KEY},x=a%2Cb"}
    assert run_of(url_of(collector), environ=variables) == []
    assert run_of(url_of(collector), headers="api-key=of-the-file\n", environ=variables) == []
    first, last = collector.requests[0][1], collector.requests[-1][1]
    assert (first["api-key"], first["x"]) == (KEY, "a,b")
    assert (last["api-key"], last["x"]) == ("of-the-file", None)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (f"{KEY}", "item 1"), (f"a=b\n\n{KEY}", "item 2"), (f"a b={KEY}", "header 1"),
        (f"a=b,b={KEY}%0d", "header 2"), (f"a={KEY}ä", "header 1"),
        (f"Content-type={KEY}", "header 1: Content-type is set by ssbench"),
    ],
)  # fmt: skip
def test_what_is_no_header_is_placed_and_not_shown(text: str, where: str) -> None:
    for words, what in (((text, {}), "--otlp-headers"), (
        ("", {"OTEL_EXPORTER_OTLP_HEADERS": text}), "OTEL_EXPORTER_OTLP_HEADERS"
    )):  # fmt: skip
        with pytest.raises(UsageError, match=f"^{what}: {where}") as found:
            Otlp("http://127.0.0.1:9/v1/metrics", "x", *words, print)
        assert KEY not in str(found.value)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((401, f"no {KEY}".encode()), "HTTP 401 Unauthorized: no ***"),
        ((307, b"elsewhere"), "HTTP 307 Temporary Redirect: elsewhere"),
        ((200, b"\xff"), "a response that is not OTLP"),
        (
            (200, messages.ExportMetricsServiceResponse(
                partial_success={"rejected_data_points": 2, "error_message": f"old\x1b {KEY}"}
            ).SerializeToString()),
            "2 data points rejected: old\\x1b ***",
        ),
    ],
)  # fmt: skip
def test_what_was_not_taken_is_counted_and_told_at_the_end(
    collector: Receiver, answer: tuple[int, bytes], said: str
) -> None:
    collector.answer = answer
    told = run_of(url_of(collector), headers=f"api-key={KEY}")
    assert len(told) == 1
    assert "2 states of 2 were not written: " in told[0]
    assert KEY not in told[0]
    assert told[0].split("written: ")[1] == said


def test_a_collector_that_is_not_there_or_drips_fails_no_run(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push, "_TIMEOUT_S", 0.2)
    said = shell.run("-q", "-R", "--otlp", f"http://127.0.0.1:{held_port()}")
    assert (said.status, said.out) == (0, "")
    assert "were not written: can't be reached: connection refused" in said.err
    with ScriptedServer(dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b"x")) as drip:
        said = shell.run("-q", "-R", "--force", "--otlp", f"http://127.0.0.1:{drip.port}")
    assert (said.status, said.out) == (0, "")
    assert "were not written: " in said.err


def test_a_run_without_url_goes_by_the_environment_and_hides_headers_from_workers(
    collector: Receiver, shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"api-key={KEY}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", url_of(collector))
    assert shell.run("-q", "-R", "--otlp") == (0, "", "")
    assert "OTEL_EXPORTER_OTLP_HEADERS" not in os.environ
    assert {headers["api-key"] for _, headers, _ in collector.requests} == {KEY}
    phases = {
        values(point.attributes)["ssbench.phase"]
        for request in exports(collector)
        for point in points_of(request)["ssbench.users"][2]
    }
    assert "run" in phases
    said = shell.run("-q", "-R", "--otlp", url_of(collector), "--otlp-headers", tmp_path / "none")
    assert said.status == 2
    assert "--otlp-headers" in said.err


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({}, "http://localhost:4318/v1/metrics"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "https://h:1/base/"}, "https://h:1/base/v1/metrics"),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://h/m"}, "http://h/m"),
    ],
)
def test_the_variables_of_opentelemetry_give_the_url(environ: dict[str, str], url: str) -> None:
    assert otlp_endpoint(environ) == url
    assert (
        otlp_url(url.removesuffix("/v1/metrics")) == f"{url.removesuffix('/v1/metrics')}/v1/metrics"
    )


@pytest.mark.parametrize("text", ["my.scenario", "ftp://h", "http://h:x", "http://u:hush@h", "h:1"])
def test_what_is_no_url_of_a_collector_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as found:
        otlp_url(text)
    assert "hush" not in str(found.value)
    with pytest.raises(UsageError, match="OTEL_EXPORTER_OTLP_ENDPOINT: "):
        otlp_endpoint({"OTEL_EXPORTER_OTLP_ENDPOINT": text})
