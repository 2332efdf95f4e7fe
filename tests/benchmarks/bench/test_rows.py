"""The rows: what is put beside what, in which unit, and what they say where nothing can be run."""

from __future__ import annotations

import contextlib
import importlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from benchmarks.bench import big, master, noop, target, tls, watch, wrk
from benchmarks.bench import ours as ours_module
from benchmarks.bench.child import CommandError
from benchmarks.bench.figure import Verdict
from benchmarks.bench.ours import GET, PUT, Load, Ours
from benchmarks.bench.simulated import Cost, Sample, cost
from benchmarks.bench.wrk import Wrk

MIB = 2**20
KEPT, MISSED, NOT_RUN = Verdict.KEPT, Verdict.MISSED, Verdict.NOT_RUN
TLS_URL = "https://127.0.0.1:9/v1/AUTH_test"


@contextlib.contextmanager
def fake_store(*, page_cache: bool = False) -> Iterator[SimpleNamespace]:
    yield SimpleNamespace(
        url=f"http://{'disk' if page_cache else 'memory'}/v1", tls_url=TLS_URL,
        authority="ca.pem", put=lambda name, size: None,
    )  # fmt: skip


class Pretended:
    """Stands in for our runs and those of wrk."""

    def __init__(self, ours: Callable[[Load], Ours]) -> None:
        self.ours = ours
        self.loads: list[Load] = []
        self.wrk: list[tuple[str, int | None]] = []  #: URL, size of uploads

    def run(self, load: Load) -> Ours:
        self.loads.append(load)
        return self.ours(load)

    def run_wrk(
        self, url: str, *, connections: int, seconds: int, put_size: int | None = None
    ) -> Wrk:
        """At 1,000 MB/s, for 200 µs a MB; an object of 50 kB takes 10 µs."""
        self.wrk.append((url, put_size))
        megabytes = self.loads[-1].size / 1e6 if self.loads[-1].size >= MIB else 0.05
        return Wrk(100, 100 * megabytes / 1000, 100 * megabytes * 200e-6)


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Load], Ours]], Pretended]:
    def install(ours: Callable[[Load], Ours]) -> Pretended:
        made = Pretended(ours)
        monkeypatch.setattr(target, "lacking", lambda: "")
        monkeypatch.setattr(target, "serving", fake_store)
        monkeypatch.setattr(ours_module, "run", made.run)
        monkeypatch.setattr(wrk, "run", made.run_wrk)
        return made

    return install


Pretend = Callable[[Callable[[Load], Ours]], Pretended]


@pytest.mark.parametrize("row", ["small", "s3", "webdav", "file", "master", "big", "tls"])
def test_without_a_store_or_reference_there_is_no_figure(
    row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "lacking", lambda: "not run: apt-get install wrk, fio")
    monkeypatch.setattr(shutil, "which", lambda program: None)
    figures = list(importlib.import_module(f"benchmarks.bench.{row}").run(1))
    assert {figure.verdict for figure in figures} == {NOT_RUN}
    assert all("apt-get install" in figure.why_not for figure in figures)


def test_large_objects_are_compared_by_the_megabyte(pretend: Pretend) -> None:
    """Downloads come from the page cache and uploads go to memory, which is bounded; a download
    has to be faster than wrk's, an upload not; the largest are measured less often."""

    def ours(load: Load) -> Ours:  # 1,000 MB/s as well, for 100 µs a MB
        megabytes = 100 * load.size / 1e6
        return Ours(100, megabytes / 1000, megabytes * 100e-6, 0.0, 99.0)

    made = pretend(ours)
    figures = list(big.run(5))
    kinds = [
        ("http://disk/v1", GET, 8 * MIB), ("http://memory/v1", PUT, 8 * MIB),
        ("http://disk/v1", GET, 64 * MIB), ("http://memory/v1", PUT, 64 * MIB),
    ]  # fmt: skip
    counted = Counter((load.url, load.profile, load.size) for load in made.loads)
    assert counted == dict(zip(kinds, (5, 5, 3, 3), strict=True))
    assert all((load.objects + 1 + load.users) * load.size < 1e9 for load in made.loads)
    for load, (_url, put_size) in zip(made.loads, made.wrk, strict=True):
        assert put_size == (load.size if load.profile == PUT else None)
    rates, costs, memories = figures[::3], figures[1::3], figures[2::3]
    for rounds, rate, cpu, memory in zip((5, 5, 3, 3), rates, costs, memories, strict=True):
        assert (*rate.ours, *rate.theirs) == pytest.approx([1000] * 2 * rounds)
        assert (*cpu.ours, *cpu.theirs) == pytest.approx([100] * rounds + [200] * rounds)
        assert list(memory.ours) == [99.0] * rounds
    assert [(figure.unit, figure.title[:9].strip(), figure.verdict) for figure in rates] == [
        ("MB/s", "8 MiB GET", MISSED), ("MB/s", "8 MiB PUT", KEPT),
        ("MB/s", "64 MiB GE", MISSED), ("MB/s", "64 MiB PU", KEPT),
    ]  # fmt: skip


def test_the_master_is_compared_with_its_workers(pretend: Pretend) -> None:
    made = pretend(lambda load: Ours(1_000_000, 1.0, 12.0, 3.0 * load.workers, 40.0))
    one, three = master.run(2)
    assert [(load.workers, load.users) for load in made.loads[:2]] == [(1, 64), (3, 192)]
    assert (one.ratio, one.verdict) == (0.25, KEPT)
    assert (three.ratio, three.verdict) == (0.75, MISSED)


@pytest.mark.parametrize(("ours_us", "verdict"), [(25, KEPT), (25.1, MISSED)])
def test_both_go_over_tls(ours_us: float, verdict: Verdict, pretend: Pretend) -> None:
    made = pretend(lambda load: Ours(1_000_000, 1.0, ours_us, 3.0, 40.0))
    (figure,) = tls.run(2)
    assert figure.verdict is verdict
    assert list(figure.ours) == [ours_us] * 2
    assert {(load.url, *load.options) for load in made.loads} == {
        (TLS_URL, "--os-cacert", "ca.pem")
    }
    assert made.wrk == [(f"{TLS_URL}/peers/object", None)] * 2


def test_watched_runs_alternate_with_others(
    pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ours(load: Load) -> Ours:
        drift = 1 + (len(made.loads) + 1) // 2  # both runs of a pair are slowed down alike
        cpu_s = drift * (1.03 if load.watched else 1.0)
        return Ours(100_000, drift * 1.01 if load.watched else drift, cpu_s, cpu_s, 40.0)

    made = pretend(ours)
    monkeypatch.setattr(target, "lacking", lambda: "not run: apt-get install nginx")
    verdicts = [figure.verdict for figure in watch.run(2)]
    assert [load.watched for load in made.loads] == [True, False, False, True] * 2
    assert verdicts == [MISSED, KEPT, NOT_RUN, NOT_RUN]


def test_0_3_9_is_left_out_and_said_where_no_python_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noop, "measure", lambda options, program=(): 61_000.0)
    monkeypatch.setattr(noop, "sockets", lambda setting: 244_000.0)
    monkeypatch.setattr(noop, "old_program", lambda: None)
    sockets, old, *_ = noop.run(2)
    assert (sockets.ours, sockets.theirs, sockets.ratio) == ([61_000.0] * 2, [244_000.0] * 2, 0.25)
    assert (old.reference, old.verdict, old.optional) == ("ssbench 0.3.9", NOT_RUN, True)
    monkeypatch.setattr(noop, "old_program", lambda: "/opt/old/ssbench-master")
    _, old, *_ = noop.run(1)
    assert (old.theirs, old.ratio) == ([61_000.0], 1.0)


def test_only_operations_between_two_samples_of_a_run_count() -> None:
    # Start, the first sample that sees operations, another one, and two of an end.
    looks = [
        Sample(0, 5.0, 1.0), Sample(100, 5.1, 1.2), Sample(600, 5.2, 1.45), Sample(700, 5.9, 1.6),
        Sample(700, 9.0, 9.0),
    ]  # fmt: skip
    assert cost(looks) == Cost(pytest.approx(200.0), pytest.approx(500.0))
    with pytest.raises(CommandError, match="only 1 samples during 700"):
        cost([looks[0], looks[1], looks[3]])
