"""The row over TLS: what is put beside what."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from benchmarks.bench import ours, tls
from benchmarks.bench.figure import Verdict
from benchmarks.bench.wrk import Wrk

URL = "https://127.0.0.1:9/v1/AUTH_test"


@contextlib.contextmanager
def nowhere() -> Iterator[SimpleNamespace]:
    yield SimpleNamespace(tls_url=URL, authority="ca.pem", put=lambda name, size: None)


@pytest.mark.parametrize(("ours_us", "verdict"), [(25, Verdict.KEPT), (25.1, Verdict.MISSED)])
def test_both_go_over_tls(
    ours_us: float, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[ours.Load] = []
    urls: list[str] = []

    def our_run(load: ours.Load) -> ours.Ours:
        loads.append(load)
        return ours.Ours(1_000_000, 1.0, ours_us, 3.0, 40.0)

    def wrk_run(url: str, *, connections: int, seconds: int) -> Wrk:
        urls.append(url)
        return Wrk(1_000_000, 1.0, 10.0)

    monkeypatch.setattr(tls.target, "lacking", lambda: "")
    monkeypatch.setattr(tls.target, "serving", nowhere)
    monkeypatch.setattr(tls.ours, "run", our_run)
    monkeypatch.setattr(tls.wrk, "run", wrk_run)
    (figure,) = tls.run(2)
    assert figure.verdict is verdict
    assert list(figure.ours) == [ours_us] * 2
    assert {(load.url, *load.options) for load in loads} == {(URL, "--os-cacert", "ca.pem")}
    assert urls == [f"{URL}/peers/object"] * 2


def test_without_a_store_there_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls.target, "lacking", lambda: "not run: apt-get install wrk")
    assert {figure.verdict for figure in tls.run(2)} == {Verdict.NOT_RUN}
