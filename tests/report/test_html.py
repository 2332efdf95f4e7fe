"""Reports as pages: what they say, that nothing from outside becomes markup, and how they look."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from html.parser import HTMLParser
from itertools import combinations
from math import log10
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ssbench.core.operations import READ, UPDATE
from ssbench.core.records import MASTER, Record
from ssbench.core.stats.compare import comparison
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.steps import Search, Step
from ssbench.core.stats.thresholds import Threshold
from ssbench.report import Report, of_run, plotly_script, render, render_html
from ssbench.report.comparison import of_comparison
from ssbench.report.series import SeriesSettings, of_series
from tests.report import runs
from tests.report.test_charts import exact
from tests.report.test_series import step
from tests.servers.browser import Browser, browser

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{7*7}}{%raw%}"
WIDTHS = (400, 1000, 2000)


def lasting(seconds: int = 40, rate: int = 50) -> list[Record]:
    """Three stages with a warm-up, errors, and metrics of a host."""
    keys = {"stages": [{}, {"warmup": 3}, {}], "run_seconds": seconds, "operation_count": None}
    records = runs.lasting(seconds, rate, due=True, begins=(0, 10, 20), **keys)
    failures = [
        runs.failure(9000 + n, READ, start_ns=n * runs.SECOND, status=503 if n % 2 else 500)
        for n in range(5, seconds - 5)
    ]
    hosts = [runs.host(index, n) for n in range(seconds) for index in (MASTER, 0)]
    return [*records[:-2], runs.batch(failures), *hosts, *records[-2:]]


def of_records(records: Sequence[Record], *thresholds: str) -> Report:
    judged = [Threshold.parse(text) for text in thresholds]
    stats = RunStats.of(records, in_detail=True)
    return of_run(stats, thresholds=judged, stats_file="x.stat.gz")


def parts() -> Report:
    """Two size classes, two storage URLs, and more workers than bars can have names."""
    sizes = [{"name": HOSTILE}, {"name": "small"}]
    rows = [row._replace(url=n % 2) for n, row in enumerate(runs.some_rows(300, 7))]
    workers = [runs.worker(index, f"bench-{index:02}-of-many") for index in range(20)]
    batches = [runs.batch(rows[at::20], worker_index=at) for at in range(20)]
    header = runs.header(scenario={**runs.SCENARIO, "sizes": sizes})
    return of_records([header, *workers, *runs.normal()[5:7], *batches, runs.footer()])


def brief() -> Report:
    """One whole second, and a part of the next."""
    rows = runs.batch(runs.some_rows(120, 7))
    return of_records([runs.header(), runs.worker(0, "alpha"), rows, runs.footer()])


def series() -> Report:
    stats = runs.stats_of(runs.lasting(12, 50))
    search = Search(1, 100)
    for load, kept in ((1, True), (2, True), (4, False), (3, True)):
        search.record(load, kept=kept)
    slo = (Threshold.parse("p99 < 50ms"),)
    percentiles = (50.0, 95.0, 99.0, 99.9, 100.0)
    settings = SeriesSettings("own", "users", percentiles, slo, search)
    steps = [Step.of(stats, n, f"{n}.stat.gz", percentiles, slo) for n in (1, 2, 4, 3)]
    return of_series(settings, steps)


def compared() -> Report:
    named = [(f"{n}.gz", runs.stats_of(runs.lasting(14, 40 * n, seed=n))) for n in (1, 2, 3)]
    return of_comparison(comparison(named, seed=1))


#: Each is made once.
REPORTS = {
    "run": cache(lambda: of_records(lasting(), "p99(READ) < 50ms")),
    "parts": cache(parts),
    "brief run": cache(brief),
    "plain run": cache(lambda: of_run(runs.stats_of(runs.normal()))),
    "no results": cache(lambda: of_records(runs.no_results())),
    "series": cache(series),
    "comparison": cache(compared),
}


@cache
def page_of(name: str) -> str:
    """A report's page, with plotly."""
    return render_html(REPORTS[name]())


class Page(HTMLParser):
    """The elements, texts and cells of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _attributes in self.elements)


def text_of(html: str) -> str:
    """What a reader sees of it without its charts, with single spaces."""
    body = html.partition("<body>")[2]
    return " ".join(" ".join(Page(re.sub(r"(?s)<script.*?</script>", "", body)).texts).split())


@pytest.fixture
def no_plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "plotly"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "plotly", None)


@pytest.mark.parametrize("name", REPORTS)
def test_the_summary_stands_first_in_every_page(name: str) -> None:
    report = REPORTS[name]()
    shown = text_of(page_of(name))
    rows = report["summary"].tables[0].rows
    first = " ".join(f"{row['topic']} {row['text']}" for row in rows)
    assert 0 < shown.index(" ".join(first.split())) < 400


def test_a_run_has_its_charts_and_tables() -> None:
    shown = text_of(page_of("run"))
    for title in (
        "Throughput (operations/s)", "Data moved (MB/s)", "Latency (ms)",
        "Latency distribution by operation", "Errors by cause (errors/s)",
        "CPU of the hosts, all cores (%)", "Operations ", "Operations by size class", "Stages",
        "Workers", "Storage URLs", "Errors", "Thresholds", "Size classes of the scenario",
        "Scenario and environment", "Each line ends at the highest percentile",
    ):  # fmt: skip
        assert title in shown, title
    of_classes = text_of(render_html(of_records(runs.normal())))
    assert "Latency distribution by size class" in of_classes
    assert "stage 2: 4 users (at 10.2 s)" in shown
    assert "warm-up, not counted (10.2 to 13.2 s)" in shown
    assert "alpha (bench-01)" in shown


def test_severity_is_one_order_in_every_format() -> None:
    """Fewer users than requested and a bottleneck are graver than a rate that varied."""
    short = runs.MarkRecord(0, "users", 0, 2)
    swinging = runs.lasting(30, lambda second: 20 if second % 2 else 60)
    busy = [runs.host(0, n, loop_cpu_percent=99.0) for n in range(30)]
    records = [*swinging[:3], runs.MarkRecord(0, "stage", 0, 4), short, *swinging[4:-1], *busy]
    report = of_run(runs.stats_of([*records, runs.footer(warnings=["policy is slow"])]))
    notes = {
        "FEWER USERS THAN REQUESTED: 2 of 4 users ran": "severe",
        "Worker alpha (bench-01) used 99 % of a core": "severe",
        "The rate of operations ": "warning",
        "policy is slow": "warning",
    }
    text, found = render(report, "text"), json.loads(render(report, "json"))
    shown = [*found["ending"], *found["load_generator"]["notes"], *found["steadiness"]]
    html, markdown = render_html(report), render(report, "markdown")
    for at, (words, severity) in enumerate(notes.items()):
        in_json = [each["severity"] for each in shown if each["sentence"].startswith(words)]
        assert set(in_json) <= {severity}
        assert f'<li class="{severity}">{words}' in html
        assert f"- **{'WARNING' if severity == 'severe' else 'Warning'}:** {words}" in markdown
        prefix = {"severe": "WARNING: ", "warning": "Warning: "}[severity] if at else ""
        assert f"\n{prefix}{words}" in text
    assert sorted(html.index(f'">{words}') for words in notes) == [
        html.index(f'">{words}') for words in notes
    ], "the gravest first"


def test_a_page_asks_for_nothing_from_a_network() -> None:
    page = Page(page_of("run"))
    for tag, attributes in page.elements:
        assert not attributes.keys() & {"src", "href", "action"}, tag
    policy = next(a["content"] for _tag, a in page.elements if "http-equiv" in a)
    assert policy is not None
    assert policy.startswith("default-src 'none'")


@pytest.mark.usefixtures("no_plotly")
@pytest.mark.parametrize("name", REPORTS)
def test_without_plotly_each_line_of_a_chart_is_a_small_drawing(name: str) -> None:
    html = render_html(REPORTS[name]())
    page = Page(html)
    assert page.count("script") == 0
    assert "With plotly (the extra html of ssbench) this page has charts." in html
    assert page.count("polyline") >= page.count("figure")
    assert len(html) < 300_000


@pytest.mark.usefixtures("no_plotly")
def test_without_plotly_bars_are_outlines_from_zero() -> None:
    page = Page(render_html(REPORTS["parts"]()))
    lines = [(given["points"] or "").split() for tag, given in page.elements if tag == "polyline"]
    [rates] = (line for line in lines if len(line) == 4 * 20)  # four corners of each worker's
    x, y = zip(*(map(float, point.split(",")) for point in rates), strict=True)
    assert (x[0], x[-1], list(x)) == (0, 320, sorted(x))
    assert {*y[::4], *y[3::4]} == {38}
    assert y[1::4] == y[2::4]
    assert min(y) == 2


TITLE = re.compile("<figcaption>(.*?) <span>")


def drawings(html: str, title: str) -> list[tuple[str, str]]:
    """Of a chart the name and range, and the points, of each small drawing."""
    figures = {found[1]: each for each in html.split("<figure>") if (found := TITLE.search(each))}
    return re.findall(r'<div>([^<]+)<svg .*? points="(.*?)"', figures[title])


@pytest.mark.usefixtures("no_plotly")
def test_small_drawings_have_the_range_of_their_line() -> None:
    assert drawings(render_html(of_records(exact())), "Data moved") == [
        ("MB/s: 10 to 30", "0.0,38.0 160.0,20.0 320.0,2.0")
    ]


@pytest.mark.usefixtures("no_plotly")
def test_a_line_of_too_few_operations_is_not_drawn() -> None:
    records = [*exact()[:-1], runs.batch([runs.result(995, UPDATE)]), runs.footer()]
    lines = drawings(render_html(of_records(records)), "Latency distribution by operation")
    assert [name.partition(":")[0] for name, _points in lines] == ["CREATE", "READ"]


def axes_of(html: str) -> dict[str, dict[str, Any]]:
    """Title of a chart -> the vertical axis that plotly gets."""
    data = re.search(r'(?s)id="figures">(.*?)</script>', html)
    assert data
    axes = [each["yaxis"] for each in json.loads(data[1])]
    return dict(zip(TITLE.findall(html), axes, strict=True))


def test_only_axes_of_latencies_are_logarithmic() -> None:
    axes = axes_of(render_html(of_records(exact()), "plotly.js"))
    log = {title for title, axis in axes.items() if axis["type"] == "log"}
    assert log == {"Latency", "Latency distribution by operation"}
    assert axes["Throughput"] == {
        "title": {"text": "operations/s"}, "type": "linear", "rangemode": "tozero",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("least_ms", "most_ms", "ticks"),
    [
        (12, 80, [10, 20, 50, 100]),
        (12, 130, [10, 20, 50, 100, 200]),
        (12, 18, [12, 14, 16, 18]),
        (5, 5, [5, 6, 7]),
        (0.5, 130, [0.1, 1, 10, 100, 1000]),
        (0.001, 10**6, [0.001, 0.1, 10, 1000, 10**5, 10**7]),
    ],
)
def test_ticks_of_a_logarithmic_axis(least_ms: float, most_ms: float, ticks: list[float]) -> None:
    latencies = {50.0: least_ms * runs.MS, 99.0: most_ms * runs.MS, 100.0: most_ms * runs.MS}
    steps = [replace(step(), service=latencies, response=dict.fromkeys(latencies))]
    report = of_series(SeriesSettings("own", "users", tuple(latencies)), steps)
    axis = axes_of(render_html(report, "plotly.js"))["Latency by load"]
    assert axis["tickvals"] == pytest.approx(ticks)
    assert axis["ticktext"] == [f"{at:,.10g}" for at in ticks]
    assert axis["range"][0] < log10(least_ms) <= log10(most_ms) < axis["range"][1]


def hostile(name: str) -> list[Record]:
    scenario = {**runs.SCENARIO, "name": name, "policy": name, "sizes": [{"name": name}],
                name: name}  # fmt: skip
    row = runs.failure(1, READ, detail=name, transaction_id=name.encode("utf-8", "replace"))
    return [
        runs.header(
            scenario=scenario, overrides={name: name}, driver=name, hosts={name: name},
            versions={name: name}, run_id=name,
        ),
        runs.worker(0, name),
        runs.batch([row, runs.result(2, READ, start_ns=3 * runs.SECOND)]),
        runs.footer(ended="failed", reason=name, warnings=[name], workers_lost=[name]),
    ]  # fmt: skip


def reports_of(name: str) -> list[Report]:
    stats = RunStats.of(hostile(name), in_detail=True)
    settings = SeriesSettings(name, "users", (50.0, 99.0, 100.0))
    steps = [Step.of(stats, load, name, settings.percentiles) for load in (1, 2)]
    return [
        of_run(stats, stats_file=name),
        of_comparison(comparison([(name, stats), (name, stats)], seed=1)),
        of_series(settings, steps),
    ]


def pages_of(name: str) -> list[str]:
    return [render_html(report) for report in reports_of(name)]


@cache
def mild_elements() -> list[set[str]]:
    """Of pages without plotly."""
    return [{tag for tag, _ in Page(page).elements} for page in pages_of("mild")]


def test_names_from_outside_are_no_markup() -> None:
    for mild, wild in zip(pages_of("mild"), pages_of(HOSTILE), strict=True):
        for tag in ("script", "img", "b", "style", "iframe"):
            assert Page(wild).count(tag) == Page(mild).count(tag)
        assert "{{7*7}}" in text_of(wild)
        assert "<script>alert" not in wild


@pytest.mark.usefixtures("no_plotly")
@settings(max_examples=25)  # three pages each
@given(st.text(max_size=60))
def test_no_name_adds_an_element(name: str) -> None:
    """Invariant: for any names the page has the elements that it has for others."""
    for wanted, wild in zip(mild_elements(), pages_of(name), strict=True):
        found = Page(wild)
        assert {tag for tag, _ in found.elements} == wanted
        assert all(not key.startswith("on") for _, given in found.elements for key in given)


# In a browser


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("chromium")) as found:
        yield found


#: A browser compiles a script of a file once, that of a page (4.8 MB) for each page.
BESIDE = "a & b/plotly.min.js"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for pages, with plotly's script at BESIDE."""
    script, folder = plotly_script(), tmp_path_factory.mktemp("pages")
    assert script
    (folder / BESIDE).parent.mkdir()
    (folder / BESIDE).write_text(script, encoding="utf-8")
    return folder


#: Boxes of texts and charts that are not inside of each other: [name, left, top, right, bottom].
BOXES = """
const found = [];
function add(name, element) {
  const box = element.getBoundingClientRect();
  if (box.width > 0 && box.height > 0) found.push([name, box.left, box.top, box.right, box.bottom]);
}
const boxes = "h1, h2, h3, main > p, dt, dd, li, figcaption, .plot, .scroll, .below";
document.querySelectorAll(boxes).forEach(
  (element) => add(element.tagName + " " + element.textContent.slice(0, 30), element));
document.querySelectorAll(".plot").forEach((plot) => plot.querySelectorAll("text").forEach(
  (text) => { if (text.textContent.trim()) add("#" + plot.id + " " + text.textContent, text); }));
return found;
"""


def overlaps(boxes: Sequence[Any]) -> list[str]:
    found = []
    for one, other in combinations(boxes, 2):
        if one[0].startswith("DIV") and other[0].startswith("#"):
            continue  # a text of a chart is inside of it
        wide = min(one[3], other[3]) - max(one[1], other[1])
        high = min(one[4], other[4]) - max(one[2], other[2])
        if wide > 1 and high > 1:
            found.append(f"{one[0]} / {other[0]}")
    return found


#: Charts with a point or bar, or a line between points.
DRAWN = """
return [...document.querySelectorAll(".plot")].filter((plot) =>
  plot.querySelector(".trace .point, .trace .js-line[d*=L]")).length;
"""


def check_looks(chromium: Browser, charts: int) -> None:
    """No script error, every chart drawn, nothing on top of each other, nothing too wide."""
    assert chromium.errors() == []
    assert chromium.run(DRAWN) == charts
    assert overlaps(chromium.run(BOXES)) == []
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert chromium.run(wide) == 0
    assert [url for url in chromium.requests() if url.startswith(("http", "ws"))] == []


@pytest.mark.program("chromium")
@pytest.mark.program("chromedriver")
@pytest.mark.parametrize("name", ["run", "brief run", "series", "comparison"])
def test_a_browser_draws_every_chart(name: str, chromium: Browser, pages: Path) -> None:
    html = page_of(name) if name == "run" else render_html(REPORTS[name](), BESIDE)
    page = pages / "page.html"
    page.write_text(html, encoding="utf-8")
    for width in WIDTHS:
        chromium.open(page, width)
        check_looks(chromium, Page(html).count("figure"))
    chromium.open(page, 1000, dark=True)
    check_looks(chromium, Page(html).count("figure"))
    ground = "return getComputedStyle(document.body).backgroundColor"
    assert chromium.run(ground) == "rgb(20, 23, 26)"
    chromium.open(page, 700, media="print")
    check_looks(chromium, Page(html).count("figure"))
    assert chromium.run(ground) == "rgb(255, 255, 255)"
    # As it is printed from a wide window: the charts were drawn for that.
    chromium.open(page, 2000)
    chromium.run("window.dispatchEvent(new Event('beforeprint'))")
    wider = "[...document.querySelectorAll('.main-svg')].map(each => each.clientWidth)"
    assert set(chromium.run(f"return {wider}")) <= {330}, "two of them beside each other fit A4"


@pytest.mark.program("chromium")
@pytest.mark.program("chromedriver")
def test_a_browser_runs_no_script_of_a_name(chromium: Browser, pages: Path) -> None:
    page = pages / "page.html"
    for report in reports_of(HOSTILE):
        html = render_html(report, BESIDE)
        page.write_text(html, encoding="utf-8")
        chromium.open(page, 400)
        check_looks(chromium, Page(html).count("figure"))


@pytest.mark.program("chromium")
@pytest.mark.program("chromedriver")
@pytest.mark.usefixtures("no_plotly")
def test_a_browser_shows_the_page_without_plotly(chromium: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(render_html(REPORTS["run"]()), encoding="utf-8")
    for width in WIDTHS:
        chromium.open(page, width)
        check_looks(chromium, 0)
