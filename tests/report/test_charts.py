"""The charts of pages: which figures are drawn, along which axes, and what is marked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from html import unescape
from math import nan
from typing import Any

from ssbench.core.model import Phase
from ssbench.core.operations import CREATE, READ, UPDATE
from ssbench.core.records import MASTER, MarkRecord, PhaseRecord, Record
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.thresholds import ThresholdResult
from ssbench.report import render_html
from ssbench.report.model import Report
from ssbench.report.run import of_run
from tests.golden import compare
from tests.report import runs
from tests.report.cases import SLO, compared, searched, series, step
from tests.report.reports import of_records
from tests.report.runs import MS, SECOND

_MOST_POINTS = 12  #: of a line in the golden file


def exact(*marks: MarkRecord, **changes: object) -> list[Record]:
    """10, 20 and 30 successes of 10, 20 and 30 ms in the first three seconds, 1 MB each; a failure
    in the second one; and one that takes from the third to the fourth."""
    rows = [
        runs.result(
            100 * second + n, READ if n % 2 else CREATE, start_ns=second * SECOND + 10 * n * MS,
            last_byte_ns=(1 + second) * 10 * MS, bytes_moved=10**6,
        )
        for second in range(3)
        for n in range(10 * (second + 1))
    ]  # fmt: skip
    rows.append(runs.failure(991, READ, start_ns=SECOND))
    rows.append(runs.result(992, READ, start_ns=5 * SECOND // 2, last_byte_ns=SECOND))
    return [
        runs.header(scenario={**runs.SCENARIO, **changes}),
        runs.worker(0, "alpha"),
        PhaseRecord(Phase.RUN, runs.STARTED_AT, 4),
        *(marks or (MarkRecord(0, "stage", 0, 4), MarkRecord(4 * SECOND, "end", 0, 4))),
        runs.batch(rows),
        runs.host(0, 0, disk_read_bytes_per_s=2e6),
        runs.host(0, 1, cpu_percent=70.0),
        runs.footer(),
    ]


def marked(*marks: tuple[int, str, int, int, float | None], **changes: object) -> list[Record]:
    return exact(*(MarkRecord(at_s * SECOND, *more) for at_s, *more in marks), **changes)


def shared(workers: int) -> list[Record]:
    """Each worker has twice as many operations as the one before, of as many ms, in 4 s, from
    two storage URLs in turn."""
    load = MarkRecord(0, "stage", 0, 4), MarkRecord(4 * SECOND, "end", 0, 4)
    batches, number = [], 0
    for worker in range(workers):
        rows = []
        for _ in range(2 << worker):
            rows.append(runs.result(number, READ, url=number % 2, start_ns=number * MS,
                                    last_byte_ns=(2 << worker) * MS))  # fmt: skip
            number += 1
        batches.append(runs.batch(rows, worker_index=worker))
    named = [runs.worker(worker, f"{worker}-of-several-workers") for worker in range(workers)]
    begin = PhaseRecord(Phase.RUN, runs.STARTED_AT, 4)
    return [runs.header(), *named, begin, load[0], *batches, load[1], runs.footer()]


def in_parts() -> list[Record]:
    """Operations of 3 s each in a window of 7 s: what ends after it counts by its share, in bars
    as in the rate of the run. The second worker is unknown."""
    batches = [
        runs.batch([
            runs.result(n, READ, start_ns=n * 3 * SECOND, last_byte_ns=3 * SECOND, url=n % 2)
            for n in range(3)
        ], worker_index=worker)
        for worker in (0, 7)
    ]  # fmt: skip
    begin, end = MarkRecord(0, "stage", 0, 2), MarkRecord(7 * SECOND, "end", 0, 2)
    scenario = {**runs.SCENARIO, "operation_count": None}
    phase = PhaseRecord(Phase.RUN, runs.STARTED_AT, 2)
    worker = runs.worker(0, "alpha")
    return [runs.header(scenario=scenario), worker, phase, begin, end, *batches, runs.footer()]


def around(*records: Record, seconds: int = 1) -> list[Record]:
    start = [PhaseRecord(Phase.RUN, runs.STARTED_AT, 4), MarkRecord(0, "stage", 0, 4)]
    end = [MarkRecord(seconds * SECOND, "end", 0, 4), runs.footer()]
    return [runs.header(), *start, *records, *end]


def long() -> list[Record]:
    """A point is of several seconds: rates are per second of it; latencies are merged, not
    averaged. Metrics of hosts are averaged."""
    rows = []
    for second in range(1201):
        for n in range(1 + second % 3):
            took_ns = (90 if second % 3 == 1 else 10) * MS
            start_ns = second * SECOND + n * 100 * MS
            rows.append(runs.result(len(rows) + 1, READ, start_ns=start_ns, last_byte_ns=took_ns))
        if second < 4:
            rows.append(runs.failure(len(rows) + 1, READ, start_ns=second * SECOND))
    hosts = [runs.host(0, second, cpu_percent=10.0 + second % 2) for second in range(1201)]
    return around(runs.worker(0, "alpha"), runs.batch(rows), *hosts, seconds=1201)


def metrics() -> list[Record]:
    """The busiest of many processes have a line; what is not known is not drawn. Causes of errors
    that are as frequent have one order."""
    received = "network_received_bytes_per_s"
    failures = [runs.failure(status, READ, status=status) for status in (503, 404)]
    workers = [runs.worker(index, f"w{index:02}") for index in range(20)]
    hosts = [runs.host(index, 0, loop_cpu_percent=10.0 + index, **{received: 1e6})
             for index in range(20)]  # fmt: skip
    more = [runs.host(0, at, **{received: value}) for at, value in ((1, nan), (2, 3e6))]
    busy = runs.host(MASTER, 0, loop_cpu_percent=99.0)
    return around(*workers, runs.batch(failures), *hosts, *more, busy)


def repeated() -> Report:
    """Of several runs of a load the median, with the single runs beside it; the SLO is a line."""
    found = []
    for load, rate in ((1, 10.0), (2, 20.0), (2, 26.0), (2, 22.0)):
        judged = (ThresholdResult(SLO, 40 * MS, passed=True),)
        found.append(step(load, rate_per_s=rate, verdicts=judged))
    return series(*found, thresholds=(SLO,))


def few_users(*loads: float, over: str = "users") -> Report:
    """The last step ran with fewer users: it is not drawn."""
    kind = "response" if over == "rate" else "service"
    steps = [step(load) for load in loads]
    if over == "rate":
        steps = [step(load, **{kind: steps[at].service}) for at, load in enumerate(loads)]
    return series(*steps, step(99, users_asked=99, users_ran=4), over=over)


def ticks(least_ms: float, most_ms: float) -> Report:
    times = {50.0: least_ms * MS, 99.0: most_ms * MS, 100.0: most_ms * MS}
    return series(step(20, service=times, response=dict.fromkeys(times)), percentiles=tuple(times))


DRAWN: dict[str, Callable[[], Report]] = {
    "exact": lambda: of_records(exact()),
    "stages of users": lambda: of_records(
        marked((0, "stage", 0, 4, None), (2, "stage", 1, 8, None), (4, "end", 1, 8, None))
    ),
    "stages of rates": lambda: of_records(
        marked((0, "stage", 0, 4, 2.5), (2, "stage", 1, 8, 20.0), (4, "end", 1, 8, 20.0))
    ),
    "what does not count": lambda: of_records(
        marked((0, "stage", 0, 4, None), (0, "users", 0, 3, None), (4, "end", 0, 4, None),
               warmup=1, cooldown=0.5)
    ),
    "not in detail": lambda: of_run(RunStats.of(exact())),
    "a plain run": lambda: of_records(runs.lasting(12, 50)),
    "an operation too few": lambda: of_records(
        [*exact()[:-1], runs.batch([runs.result(995, UPDATE)]), runs.footer()]
    ),
    "size classes": lambda: of_records(runs.normal()),
    **{
        f"{count} workers": lambda count=count: of_records(shared(count))  # type: ignore[misc]
        for count in (1, 2, 4, 5, 11)
    },
    "parts of operations": lambda: of_records(in_parts()),
    "a long run": lambda: of_records(long()),
    "metrics": lambda: of_records(metrics()),
    "users": lambda: few_users(8, 1, 4),
    "rates": lambda: few_users(8, 1, 4, over="rate"),
    "none counts": few_users,
    "a search": lambda: searched((2, True), (4, True), (8, False)),
    "repeated": repeated,
    **{
        f"{least:g} to {most:g} ms": lambda least=least, most=most: ticks(  # type: ignore[misc]
            least, most
        )
        for least, most in (
            (12, 80), (12, 130), (12, 18), (5, 5), (0.5, 130), (0.001, 10**6), (0.000301, 0.000601)
        )
    },
    "two runs": lambda: compared(*(runs.lasting(14, 50, slower=slower) for slower in (1.0, 2.0))),
    "closed and open": lambda: compared(
        runs.lasting(14, 50), runs.lasting(14, 50, due=True, rate=50)
    ),
}  # fmt: skip


def drawn(report: Report) -> Iterator[str]:
    """Of each chart what plotly gets, and the small drawings that stand for it without plotly."""
    page = render_html(report, "plotly.js")
    found = re.search(r'(?s)id="figures">(.*?)</script>', page)
    for figure, html in zip(
        json.loads(found[1]) if found else (), page.split("<figure>")[1:], strict=True
    ):
        text = re.sub(r"<[^>]*>", " ", html.partition("</figure>")[0])
        title, *words = filter(
            None, (" ".join(each.split()) for each in unescape(text).split("\n"))
        )
        yield f"## {title}: {figure['kind']}"
        for key in ("xaxis", "yaxis", "marks"):
            yield f"{key}: {json.dumps(rounded(figure[key]))}"
        for line in figure["lines"]:
            points = rounded([*zip(line["x"], line["y"], strict=True)])
            more = [line["form"], line["colour"], line["labels"][:3], line["texts"]]
            some = points[:_MOST_POINTS] + points[_MOST_POINTS:][-2:]
            yield f"{line['name']} {more} {len(points)}: {json.dumps(some)}"
        small = re.findall(r' points="(.*?)"', html)
        yield from (" ".join(points.split()[:6]) for points in small)
        yield from words


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return round(value, 3) if isinstance(value, float) else value


def test_each_chart_is_drawn_as_it_was() -> None:
    lines = []
    for name, make in DRAWN.items():
        lines += [f"# {name}", *drawn(make()), ""]
    compare.check("said/charts.txt", "\n".join(lines))
