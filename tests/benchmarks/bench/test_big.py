"""The row of large objects: what is put beside what, in which unit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from benchmarks.bench import big, ours
from benchmarks.bench.figure import Figure, Verdict
from benchmarks.bench.wrk import Wrk

MIB = 2**20


@contextlib.contextmanager
def fake_store(*, page_cache: bool) -> Iterator[SimpleNamespace]:
    where = "disk" if page_cache else "memory"
    yield SimpleNamespace(url=f"http://{where}/v1", put=lambda name, size: None)


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[ours.Load]:
    """What ssbench was given to do; it and wrk move 1,000 MB/s then, for 100 and 200 µs a MB."""
    given: list[ours.Load] = []

    def our_run(load: ours.Load) -> ours.Ours:
        given.append(load)
        megabytes = 100 * load.size / 1e6
        return ours.Ours(100, megabytes / 1000, megabytes * 100e-6, 0.0, 99.0)

    def wrk_run(url: str, *, connections: int, seconds: int, put_size: int | None) -> Wrk:
        size = given[-1].size
        assert put_size == (size if given[-1].profile == ours.PUT else None)
        megabytes = 100 * size / 1e6
        return Wrk(100, megabytes / 1000, megabytes * 200e-6)

    monkeypatch.setattr(big.target, "lacking", lambda: "")
    monkeypatch.setattr(big.target, "serving", fake_store)
    monkeypatch.setattr(big.ours, "run", our_run)
    monkeypatch.setattr(big.wrk, "run", wrk_run)
    return given


def test_rates_and_processor_time_are_of_megabytes(loads: list[ours.Load]) -> None:
    figures = list(big.run(1))
    assert len(figures) == 12
    for rate, cpu, memory in zip(figures[::3], figures[1::3], figures[2::3], strict=True):
        assert (*rate.ours, *rate.theirs) == pytest.approx((1000, 1000))
        assert (*cpu.ours, *cpu.theirs) == pytest.approx((100, 200))
        assert list(memory.ours) == [99.0]


def test_a_download_has_to_be_faster_than_an_upload(loads: list[ours.Load]) -> None:
    verdicts = {figure.title: figure.verdict for figure in _rates(big.run(1))}
    assert [verdict for title, verdict in verdicts.items() if "GET" in title] == [
        Verdict.MISSED,
        Verdict.MISSED,
    ]
    assert [verdict for title, verdict in verdicts.items() if "PUT" in title] == [
        Verdict.KEPT,
        Verdict.KEPT,
    ]


def test_downloads_come_from_the_page_cache_and_uploads_go_to_memory(
    loads: list[ours.Load],
) -> None:
    list(big.run(1))
    assert [(load.url, load.profile, load.size) for load in loads] == [
        ("http://disk/v1", ours.GET, 8 * MIB),
        ("http://memory/v1", ours.PUT, 8 * MIB),
        ("http://disk/v1", ours.GET, 64 * MIB),
        ("http://memory/v1", ours.PUT, 64 * MIB),
    ]


def test_memory_is_bounded(loads: list[ours.Load]) -> None:
    list(big.run(1))
    assert all((load.objects + 1 + load.users) * load.size < 1e9 for load in loads)


def test_the_largest_are_measured_less_often(loads: list[ours.Load]) -> None:
    list(big.run(5))
    assert [load.size for load in loads].count(8 * MIB) == 10
    assert [load.size for load in loads].count(64 * MIB) == 6


def test_without_a_store_there_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(big.target, "lacking", lambda: "not run: apt-get install wrk")
    figures = list(big.run(2))
    assert {figure.verdict for figure in figures} == {Verdict.NOT_RUN}


def _rates(figures: Iterator[Figure]) -> list[Figure]:
    return [figure for figure in figures if figure.unit == "MB/s"]
