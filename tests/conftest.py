"""What all tests share."""

import gc
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from multiprocessing import forkserver
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import environment

ROOT = Path(__file__).resolve().parent.parent
HOME = environment.adopt()  # before anything that reads it is imported

from hypothesis import settings  # noqa: E402

from tests.servers.certificates import Certificates, make_certificates  # noqa: E402
from tests.servers.programs import PROGRAMS, left_out  # noqa: E402

# A slow moment of a shared machine is no defect; pytest-timeout ends what hangs. Generated input is
# the same each time, as far as the same modules are loaded (hypothesis takes constants from them),
# except where more of it is asked for, to find something new.
MORE = int(os.environ.get("SSBENCH_FUZZ_EXAMPLES") or 0)
settings.register_profile(
    "ssbench", deadline=None, derandomize=not MORE, max_examples=MORE // 10 or 100
)
settings.load_profile("ssbench")

# A shell makes its background jobs ignore SIGINT, nohup makes them ignore SIGHUP. Processes that
# the tests start inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_unconfigure() -> None:
    if HOME:
        shutil.rmtree(HOME, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None]:
    """Leave what collection made, thousands of tests, out of all collections of garbage."""
    gc.disable()
    load_share(getattr(session.config, "workerinput", {}))
    yield
    gc.freeze()
    gc.enable()


def load_share(worker: Mapping[str, Any]) -> None:
    """In a new checkout, load some of the tests before all are collected.

    Each process loads all of them, and pytest compiles those that it finds no bytecode of: twice as
    much work as all else. So each of several processes compiles a part, and takes what others did.
    """
    if not worker or sys.dont_write_bytecode:
        return
    number = int(worker["workerid"].removeprefix("gw"))
    form = f"__pycache__/{{}}.{sys.implementation.cache_tag}-pytest-*.pyc"
    for path in sorted(ROOT.glob("tests/**/test_*.py"))[number :: worker["workercount"]]:
        if not any(path.parent.glob(form.format(path.stem))):
            with suppress(Exception):  # collection reports it
                import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before pytest-randomly, which shuffles the files
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    """Leave out the tests of servers that aren't installed here; several processes share the rest.

    End-to-end tests wait most of their time, others compute: at each time, some of both run.
    """
    missing = set(left_out())
    without = [
        item for item in items if missing & {mark.args[0] for mark in item.iter_markers("program")}
    ]
    config.hook.pytest_deselected(items=without)
    items[:] = [item for item in items if item not in without]
    if hasattr(config, "workerinput"):
        items[:] = mixed(items)
    yield


def mixed(items: list[pytest.Item]) -> list[pytest.Item]:
    """File by file, the largest first: at each place, the same share of both kinds is done."""
    ordered: list[tuple[float, list[pytest.Item]]] = []
    for waits in (True, False):
        files: dict[Path, list[pytest.Item]] = {}
        for item in items:
            if ("e2e" in item.path.parts) is waits:
                files.setdefault(item.path, []).append(item)
        done, total = 0, sum(map(len, files.values()))
        for tests in sorted(files.values(), key=len, reverse=True):
            ordered.append((done / total, tests))
            done += len(tests)
    return [item for _, tests in sorted(ordered, key=itemgetter(0)) for item in tests]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which these are."""
    missing = left_out()
    if missing:
        install = ", ".join(dict.fromkeys(PROGRAMS[name] for name in missing))
        terminalreporter.write_line(
            f"left out: the tests that need {', '.join(missing)} (to install: {install})"
        )


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Those of all servers that speak TLS."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def fork_server() -> None:
    """Started before a test moves temporary files to its folder: the path of a socket is short."""
    import tests.e2e.warm  # noqa: F401  # few tests need it

    forkserver.ensure_running()


@pytest.fixture
def forked_workers(fork_server: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Local workers of runs in this process are forks of a fork server, not programs."""
    from tests.e2e.warm import Forked

    double = SimpleNamespace(**{**vars(subprocess), "Popen": Forked})
    monkeypatch.setattr("ssbench.runner.local_workers.subprocess", double)


@pytest.fixture
def few_files() -> Iterator[int]:
    """A process that may open 256 files, unless it asks for more; gives how many then."""
    before = soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
