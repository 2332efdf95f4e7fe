"""What a row says when it can't be run, and what it counts."""

from __future__ import annotations

import pytest

from benchmarks import nginx
from benchmarks.truth import rows, table
from benchmarks.truth.clients import Reported


def test_a_row_without_its_server_says_so_and_has_no_figures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nginx, "find", lambda: None)
    outcome = rows.run(rows.Row(rate=10_000), 1)
    assert not outcome.figures
    assert not outcome.missed
    assert "nginx; open loop, 10,000/s\n  not run: apt-get install nginx" in "\n".join(
        table.lines(outcome)
    )


def test_the_lateness_is_that_of_each_operation_id_or_not() -> None:
    told = Reported({}, 0, {}, [1000 * n for n in range(100, 0, -1)], set())
    assert rows.lateness(told).ours == 99_500


@pytest.mark.parametrize(("verdict", "judged"), [("limit", False), ("room", True)])
def test_late_starts_prove_nothing_where_no_core_was_left(
    verdict: str, judged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentence = "The load generator was the bottleneck: worker w used 95 % of a core"
    report = {"load_generator": {"verdict": verdict, "sentences": [sentence]}}
    told = Reported(report, 0, {}, [40_000_000] * 100, set())
    monkeypatch.setattr(rows.clients, "ssbench", lambda *_: told)
    outcome = rows.run(rows.Row(rate=10_000, noop=True), 1)
    assert bool(outcome.missed) is judged
    text = "\n".join(table.lines(outcome))
    assert (f"not judged: {sentence}" in text) is not judged
    assert ("MISSED" in text) is judged


def test_names_contain_case_and_load() -> None:
    assert rows.Row("flipped").name == "20 ms, 2 % have a bit flipped; closed loop, 64 users"
    assert rows.Row(rate=10_000, noop=True).name == "no-op; open loop, 10,000/s"
    assert rows.Row("flipped").lies
    assert not rows.Row(rate=10_000).lies
