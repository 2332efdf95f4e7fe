"""Reports as pages: what they say, that nothing from outside becomes markup, and how they look."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssbench.report import render, render_html
from ssbench.report.as_html import plotly_script
from ssbench.report.run import of_run
from tests.report import runs
from tests.report.reports import HOSTILE, REPORTS, named
from tests.servers.browser import Browser, browser

WIDTHS = (400, 1000, 2000)
NAMES = ("run", "parts", "series", "comparison")


@cache
def page_of(name: str) -> str:
    """A report's page, with plotly."""
    return render_html(REPORTS[f"small/{name}"]())


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


@pytest.fixture
def no_plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "plotly"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "plotly", None)


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
@pytest.mark.parametrize("name", NAMES)
def test_without_plotly_each_line_of_a_chart_is_a_small_drawing(name: str) -> None:
    html = render_html(REPORTS[f"small/{name}"]())
    page = Page(html)
    assert page.count("script") == 0
    assert "With plotly (the extra html of ssbench) this page has charts." in html
    assert page.count("polyline") >= page.count("figure")
    assert len(html) < 300_000


def pages_of(name: str) -> list[str]:
    return [render_html(report) for report in named(name)]


@cache
def mild_elements() -> list[set[str]]:
    """Of pages without plotly."""
    return [{tag for tag, _ in Page(page).elements} for page in pages_of("mild")]


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
@pytest.mark.parametrize("name", NAMES)
def test_a_browser_draws_every_chart(name: str, chromium: Browser, pages: Path) -> None:
    html = page_of(name) if name == "run" else render_html(REPORTS[f"small/{name}"](), BESIDE)
    page = pages / "page.html"
    page.write_text(html, encoding="utf-8")
    # To draw all charts of a page takes a second of CPU: each look has its width.
    looks = (
        (400, False, "screen", "rgb(255, 255, 255)"),
        (700, False, "print", "rgb(255, 255, 255)"),
        (1000, True, "screen", "rgb(20, 23, 26)"),
        (2000, False, "screen", "rgb(255, 255, 255)"),
    )
    for width, dark, media, ground in looks:
        chromium.open(page, width, dark=dark, media=media)
        check_looks(chromium, Page(html).count("figure"))
        found = chromium.run("return getComputedStyle(document.body).backgroundColor")
        assert found == ground
    # As it is printed from this wide window: the charts were drawn for it.
    chromium.run("window.dispatchEvent(new Event('beforeprint'))")
    wider = "[...document.querySelectorAll('.main-svg')].map(each => each.clientWidth)"
    assert set(chromium.run(f"return {wider}")) <= {330}, "two of them beside each other fit A4"


@pytest.mark.program("chromium")
@pytest.mark.program("chromedriver")
def test_a_browser_runs_no_script_of_a_name(chromium: Browser, pages: Path) -> None:
    page = pages / "page.html"
    for report in named(HOSTILE):
        html = render_html(report, BESIDE)
        page.write_text(html, encoding="utf-8")
        chromium.open(page, 400)
        check_looks(chromium, Page(html).count("figure"))


@pytest.mark.program("chromium")
@pytest.mark.program("chromedriver")
@pytest.mark.usefixtures("no_plotly")
def test_a_browser_shows_the_page_without_plotly(chromium: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(render_html(REPORTS["small/run"]()), encoding="utf-8")
    for width in WIDTHS:
        chromium.open(page, width)
        check_looks(chromium, 0)
