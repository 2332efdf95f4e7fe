"""Each test here that takes ``row`` adds a line to the table of faults, printed at the end."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.e2e.commands import Commands
from tests.e2e.faults.hostile import Bench
from tests.e2e.faults.matrix import Row, table

ROWS = pytest.StashKey[dict[str, Row]]()
HERE = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fault-table", metavar="FILE", help="also write the table of faults here")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[ROWS] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A fault that nobody named would have no row."""
    for item in items:
        if "row" in getattr(item, "fixturenames", ()) and HERE in item.path.parents:
            assert item.get_closest_marker("fault"), f"{item.nodeid} has no pytest.mark.fault"


@pytest.fixture
def row(request: pytest.FixtureRequest) -> Row:
    """This test's line: ``pytest.mark.fault("worker killed (SIGKILL)")`` names it."""
    marker = request.node.get_closest_marker("fault")
    callspec = getattr(request.node, "callspec", None)
    made = Row(marker.args[0].format(**(callspec.params if callspec else {})))
    request.config.stash[ROWS][request.node.nodeid] = made
    return made


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """What a module's tests of one store after another run on."""
    commands = Commands(tmp_path_factory.mktemp("bench"))
    yield Bench.begin(commands)
    commands.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    made = item.config.stash[ROWS].get(item.nodeid)
    if made and (report.when == "call" or report.failed):
        made.ended = "FAILED" if report.failed or made.ended == "FAILED" else report.outcome
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    config = terminalreporter.config
    rows = config.stash[ROWS].values()
    if not rows:
        return
    text = table(rows)
    terminalreporter.section("faults")
    terminalreporter.write_line(text)
    path = config.getoption("--fault-table", default=None)
    if path:
        Path(path).write_text(f"{text}\n")
