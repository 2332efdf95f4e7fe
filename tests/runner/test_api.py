"""The public API: runs from plain values, stopped from other threads, without anything left."""

from __future__ import annotations

import gc
import inspect
import json
import pydoc
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

import ssbench
from ssbench.core.model import Phase
from ssbench.core.operations import CREATE, READ
from ssbench.runner.api import OPTIONS, PARTS
from ssbench.runner.single_run import Run
from tests.descriptors import open_descriptors
from tests.fakes.observers import Recorder
from tests.timing import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
SCENARIO: dict[str, Any] = {
    "name": "own", "sizes": [{"name": "tiny", "size_min": 1, "size_max": 99}],
    "initial_files": {"tiny": 5}, "operation_count": 50, "user_count": 4,
    "crud_profile": [4, 3, 2, 1], "container_count": 2,
}  # fmt: skip


pytestmark = pytest.mark.usefixtures("forked_workers")


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def settings(tmp_path: Path, **more: Any) -> Any:
    path = str(tmp_path / "x.stat.gz")
    return {"storage": "noop", "workers": 1, "stats_file": path, "force": True, **more}


def test_a_run_gives_its_statistics_and_tells_observers(tmp_path: Path) -> None:
    observer = Recorder()
    scenario = {**SCENARIO, "crud_profile": [1, 5, 0, 0]}
    result = ssbench.run(scenario, **settings(tmp_path, observers=[observer], users=2, seconds=1.5))
    assert (result.exit_status, result.reasons) == (ssbench.ExitStatus.OK, {})
    count = result.stats.total().operations
    assert ssbench.read(result.path).run.run_id == result.run_id
    assert [phase for phase, _, _ in observer.phases][-2:] == [Phase.RUN, Phase.CLEANUP]
    last = observer.updates[Phase.RUN][-1]
    assert (last.done, last.errors, last.errors_by_cause) == (count, 0, {})
    assert {number: each.done for number, each in last.operations.items()} == {
        CREATE: result.stats.total(CREATE).operations,
        READ: result.stats.total(READ).operations,
    }
    found = [each for update in observer.updates[Phase.RUN] for each in update.operations.values()]
    assert any(each.p50_s and each.p99_s and each.p50_s <= each.p99_s for each in found)
    assert any("Starting scenario run" in text for text in observer.infos)
    assert observer.runs == [], "it is no series"


def test_figures_operations_and_page_of_a_run(tmp_path: Path) -> None:
    result = ssbench.run(SCENARIO, **settings(tmp_path))
    stats = ssbench.read(result.path)
    assert stats.metric("errors") == 0
    assert stats.metric("rate") == stats.total().rate_per_s
    assert stats.metric("p99(READ)") == stats.total(READ).last_byte.histogram.quantile(0.99) / 1e9
    assert stats.metric("P99(READ)") == stats.metric("p99(READ)")
    assert stats.metric('max(READ, "tiny")') == stats.metric("max(READ)")
    with pytest.raises(ssbench.SsbenchError, match='"p99x" is no metric'):
        stats.metric("p99x")
    for figure, why in {
        "p99(HEAD)": "metric p99(HEAD): the scenario does no HEAD",
        "p99 READ": 'metric "p99 READ": character 5: "READ" is not expected there; as in p99(READ)',
        "p99 > 1s": '"> 1s" is not expected there',
    }.items():
        with pytest.raises(ssbench.SsbenchError, match=re.escape(why)):
            stats.metric(figure)
    found = stats.to_pandas()
    assert len(found) == 50
    assert found.counted.all()
    by_pandas = (
        stats.to_pandas().query("counted").groupby("method").elapsed_nanoseconds.quantile(0.5)
    )
    assert by_pandas["GET"] / 1e9 == pytest.approx(stats.metric("p50(READ)"), rel=0.001)
    assert stats.to_html().startswith("<!DOCTYPE html>")


def test_reprs_are_a_line(tmp_path: Path) -> None:
    result = ssbench.run(SCENARIO, **settings(tmp_path))
    series = ssbench.sweep(
        SCENARIO, over="users", loads=[1, 2], **settings(tmp_path, stats_file=str(tmp_path / "s"))
    )
    paths = [step.path for step in series.steps]
    for each in (result, result.stats, series, series.steps[0], ssbench.compare(*paths)):
        assert len(repr(each)) < 300
        assert repr(each).startswith(f"<{type(each).__name__} ")


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (ssbench.run, OPTIONS), (ssbench.sweep, OPTIONS), (ssbench.find_limit, OPTIONS),
        (ssbench.read, PARTS), (ssbench.compare, PARTS),
    ],
)  # fmt: skip
def test_help_shows_all_settings(function: Any, names: Mapping[str, Any]) -> None:
    shown = inspect.signature(function)
    assert shown.parameters.keys() >= names.keys()
    if names is PARTS:
        with pytest.raises(TypeError, match=r'stag: no such parameter; did you mean "stage"\?'):
            function("x", "y", stag="1") if function is ssbench.compare else function("x", stag="1")
        return
    assert not [each for each in shown.parameters.values() if each.kind is each.VAR_KEYWORD]
    for name, each in shown.parameters.items():
        assert f":param {name}: " in function.__doc__
        assert name in ("scenario", "over", "loads", "slos") or each.default is not each.empty


def test_errors_are_exceptions(tmp_path: Path) -> None:
    with pytest.raises(ssbench.SsbenchError, match="no such file or canned scenario"):
        ssbench.run("no-such", **settings(tmp_path))
    with pytest.raises(ssbench.SsbenchError, match="user_count"):
        ssbench.run({**SCENARIO, "user_count": 0}, **settings(tmp_path))


def test_a_setting_that_is_none_is_not_given() -> None:
    nothing: Any = dict.fromkeys(OPTIONS)
    scenario = {**SCENARIO, "sizes": []}
    with pytest.raises(ssbench.SsbenchError, match="sizes"):
        ssbench.run(scenario, **nothing)
    with pytest.raises(ssbench.SsbenchError, match="sizes"):
        ssbench.find_limit(scenario, slos="p99 < 50ms", **{**nothing, "warmup": 3.0})


def test_unknown_settings_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r'wrokers: no such setting; did you mean "workers"\?'):
        ssbench.run(SCENARIO, **settings(tmp_path, wrokers=4))
    for key in ("operation_count", "op_count"):  # the scenario's name, and the option's
        with pytest.raises(
            TypeError, match=rf'{key}: no such setting; did you mean "operations"\?'
        ):
            ssbench.run(SCENARIO, **settings(tmp_path, **{key: 4}))
    with pytest.raises(TypeError, match="nix"):
        ssbench.run(SCENARIO, **settings(tmp_path, overrides={"nix": 1}))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"percentiles": [0]}, "percentiles: 0 is not above 0"),
        ({"percentiles": []}, "percentiles: the list is empty"),
        ({"thresholds": ["fast"]}, "fast"),
        ({"thresholds": "fast"}, 'thresholds: "fast": '),
        ({"storage": "embedded-swift", "ssh_workers": "h"}, "other hosts can't reach"),
        ({"storage_options": {"kee": "s3cret"}}, "no such key 'kee'; this store has no options"),
        ({"storage": "swift", "storage_options": {"kee": "s3cret"}}, "has the keys .*key, "),
        ({"storage": "embedded-swift", "storage_options": {"user": "x"}}, "has no options"),
        ({"over": "usres"}, 'over: "usres" is unknown; did you mean "users"'),
        ({"loads": []}, "at least one"),
    ],
)
def test_invalid_values_fail_at_once(tmp_path: Path, given: dict[str, Any], text: str) -> None:
    series = {"over": "users", "loads": [1], **given}
    with pytest.raises(ssbench.SsbenchError, match=text) as raised:
        ssbench.sweep(SCENARIO, **settings(tmp_path, **series))
    assert raised.value.exit_status is ssbench.ExitStatus.USAGE
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"slos": []}, "slos: there is none"),
        ({"thresholds": ["errors < 1%"]}, "thresholds: a search has slos in its place"),
        ({"seconds": 5}, "seconds: a search has step_seconds in its place"),
        ({"overrides": {"run_seconds": 5}}, "overrides: run_seconds: a search has warmup and step"),
        ({"overrides": {"warmup": 5}}, "overrides: warmup: a search has warmup and step"),
        ({"how": ssbench.SearchConfig(over="usres")}, 'over: .*did you mean "users"'),
        ({"how": ssbench.SearchConfig(precision=0)}, "precision: 0 is not above 0"),
        ({"how": ssbench.SearchConfig(first=3, most=2)}, "--start 3 is above --max-users 2"),
    ],
)
def test_a_search_that_can_not_be_made_fails_at_once(
    tmp_path: Path, given: dict[str, Any], text: str
) -> None:
    with pytest.raises(ssbench.SsbenchError, match=text) as raised:
        ssbench.find_limit(SCENARIO, **settings(tmp_path, **{"slos": "p99 < 1s", **given}))
    assert raised.value.exit_status is ssbench.ExitStatus.USAGE


def test_paths_may_be_objects(tmp_path: Path) -> None:
    (tmp_path / "own.scenario").write_text(json.dumps(SCENARIO))
    more = settings(tmp_path, stats_file=tmp_path / "x.stat.gz")
    (step,) = ssbench.sweep(tmp_path / "own.scenario", over="users", loads=[1], **more).steps
    assert step.path == str(tmp_path / "x.users1.stat.gz")
    assert ssbench.read(Path(step.path)).total().operations == 50
    with pytest.raises(ssbench.SsbenchError, match="/none: can't be read"):
        ssbench.compare(Path(step.path), tmp_path / "none")
    with pytest.raises(ssbench.SsbenchError, match="is the same run as"):
        ssbench.compare(Path(step.path), step.path)


def test_a_sweep_a_search_and_a_comparison(tmp_path: Path) -> None:
    observer = Recorder()
    more = settings(tmp_path, observers=[observer])
    sweep = ssbench.sweep(SCENARIO, over="users", loads=[1, 2], percentiles=[0.5, 100], **more)
    assert observer.runs == [(1, "users 1"), (2, "users 2")]
    assert sweep.complete
    assert [step.load for step in sweep.steps] == [1, 2]
    assert all({0.5, 100} <= set(step.service) for step in sweep.steps)
    assert len(ssbench.compare(*(step.path for step in sweep.steps)).runs) == 2
    keys = {"operation_count": None, "crud_profile": [0, 1, 0, 0]}
    found = ssbench.find_limit(
        {key: value for key, value in {**SCENARIO, **keys}.items() if value is not None},
        slos=["p99 < 10s"], step_seconds=0.3, warmup=0.0,
        how=ssbench.SearchConfig(most=2, confirm=0), **settings(tmp_path),
    )  # fmt: skip
    assert found.search is not None
    assert (found.search.kept, found.exit_status) == (2, ssbench.ExitStatus.OK)


def test_two_variants_in_turn_and_groups_of_their_runs(tmp_path: Path) -> None:
    observer = Recorder()
    more = settings(tmp_path, observers=[observer])
    found = ssbench.ab(SCENARIO, a={"users": 1}, b={"users": 2}, repeat=2, **more)
    assert [name for _, name in observer.runs] == ["A1", "B1", "B2", "A2"]
    assert (found.exit_status, found.ended, found.left_out) == (ssbench.ExitStatus.OK, "", [])
    assert found.comparison.sides is not None
    assert found.comparison.sides.names == ("users=1", "users=2")
    sides = [[run.path for run in side] for side in zip(*found.pairs, strict=True)]
    groups = ssbench.compare(*sides)
    assert [len(group) for group in groups.groups] == [2, 2]
    change, paired = groups.change("rate"), found.comparison.change("rate")
    assert change is not None
    assert paired is not None
    assert change.ratio == pytest.approx(paired.ratio)
    reads = ssbench.compare(*sides, operations="READ")
    total, all_reads = reads.change("p50"), groups.change("p50(READ)")
    assert total is not None
    assert all_reads is not None
    assert total.ratio == pytest.approx(all_reads.ratio)
    assert groups.change("p98") is None  # not compared
    with pytest.raises(ssbench.SsbenchError, match="figure"):
        groups.change("p99x")
    with pytest.raises(ssbench.SsbenchError, match="two runs or more"):
        ssbench.compare(sides[0][0])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"repeat": 0}, "repeat: 0 is below 1"),
        ({"precision": 0}, "precision: 0 is no percentage"),
        ({"b": {"stop": None}}, "b: stop: give it once"),
        ({"a": {"warmup": 9, "seconds": 3}}, "variant A: "),
    ],
)
def test_variants_that_are_rejected(given: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ssbench.SsbenchError, match=said):
        ssbench.ab(SCENARIO, **{"a": {}, "b": {}, **settings(tmp_path), **given})
    assert list(tmp_path.glob("*.gz")) == []


def test_a_run_that_fails_fails_a_sweep_and_is_an_answer_to_a_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(Run):
        def execute(self) -> ssbench.RunResult:
            result = super().execute()
            result.reasons[ssbench.ExitStatus.FAILED] = "most operations failed"
            return result

    monkeypatch.setattr("ssbench.runner.series.Run", Failing)
    sweep = ssbench.sweep(SCENARIO, over="users", loads=[1], **settings(tmp_path))
    assert sweep.reasons == {ssbench.ExitStatus.FAILED: "users 1: most operations failed"}
    observer, scenario = Recorder(), {**SCENARIO, "crud_profile": [0, 1, 0, 0]}
    del scenario["operation_count"]
    how = ssbench.SearchConfig(first=2, most=2, confirm=0)
    found = ssbench.find_limit(
        scenario, slos="p99 < 10s", step_seconds=0.3, warmup=0.0, how=how,
        **settings(tmp_path, observers=[observer]),
    )  # fmt: skip
    assert found.reasons == {}
    assert any(" --concurrency 2 " in text for text in observer.infos)


def test_a_run_is_stopped_from_another_thread(tmp_path: Path) -> None:
    stop, observer = ssbench.Stop(), Recorder()
    observer.on_update = lambda phase: (
        None if phase is not Phase.RUN or stop.requested else stop("enough")
    )
    result = ssbench.run(
        {**SCENARIO, "crud_profile": [1, 5, 0, 0]},
        **settings(tmp_path, seconds=3600, stop=stop, observers=[observer]),
    )
    assert result.reasons == {ssbench.ExitStatus.INTERRUPTED: "enough"}
    assert result.stats.total().operations > 0


def test_a_second_stop_ends_the_run_at_once(tmp_path: Path) -> None:
    stop, observer = ssbench.Stop(), Recorder()
    observer.on_update = lambda phase: phase is Phase.RUN and (stop("one"), stop("two"))
    others = psutil.Process().children()
    with pytest.raises(ssbench.Aborted) as caught:
        ssbench.run(SCENARIO, **settings(tmp_path, seconds=60, stop=stop, observers=[observer]))
    assert caught.value.result.has_results
    assert psutil.Process().children() == others


# What is left behind ------------------------------------------------------------------------


def left() -> tuple[set[str], set[tuple[int, str]], list[Any], list[Any]]:
    """Threads, descriptors, children and signal handlers of this process."""
    gc.collect()  # sockets of earlier tests
    descriptors = open_descriptors()
    threads = {thread.name for thread in threading.enumerate()}
    handlers = [signal.getsignal(number) for number in (1, 2, 10, 13, 15)]
    return threads, descriptors, psutil.Process().children(), handlers


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_two_runs_one_of_them_in_a_thread_leave_nothing_behind(tmp_path: Path) -> None:
    results: list[ssbench.RunResult] = []

    def run() -> None:
        for store in ({}, {"storage": "file", "storage_options": {"path": str(tmp_path)}}):
            results.append(ssbench.run(SCENARIO, **settings(tmp_path, **store)))

    run()  # loads modules, some of which keep a descriptor
    before = left()

    def check() -> None:
        threads, descriptors, *others = left()
        assert threads <= before[0]  # what earlier tests left may go meanwhile
        assert descriptors <= before[1]
        assert others == [*before[2:]]

    native = len(list(Path("/proc/self/task").iterdir()))
    run()
    check()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert len(results) == 6
    check()
    # A thread that was joined may take a moment to be gone.
    deadline_s = time.monotonic() + PATIENCE_S
    while len(list(Path("/proc/self/task").iterdir())) > native:  # others may end meanwhile
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


# What is loaded -----------------------------------------------------------------------------

#: Modules that cost milliseconds, and that a start does not need.
SLOW = {
    "numpy", "rich", "statistics", "difflib", "ssbench.cli.options",
    "ssbench.live.metrics",
    "ssbench.storage.filetree", "ssbench.storage.s3.client", "ssbench.transport.master_transport",
    "ssbench.statfile.legacy", "ssbench.core.stats.thresholds",
}  # fmt: skip
#: Prints the packages of ssbench that are loaded, and the slow modules. Of ``ssbench.report`` it
#: counts the modules: the package alone is a table of them.
LOADED = f"""
ours = {{*sys.modules}} - {{"ssbench.report"}}
ours = [name.split(".") for name in ours if name.startswith("ssbench.")]
print(*sorted({{*(name[1] for name in ours), *({SLOW} & set(sys.modules))}}), file=sys.stderr)
"""


def loaded(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import atexit, sys\ndef show():\n    exec({LOADED!r})\n{code}"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return set(done.stderr.splitlines()[-1].split())


def test_importing_the_package_loads_nothing() -> None:
    assert loaded("import ssbench\nshow()") == set()


@pytest.mark.parametrize(
    "command", ["run-scenario", "bench files", "bench put", "upload", "gen-files"]
)
def test_the_help_loads_only_what_options_need(command: str) -> None:
    code = f"""
from ssbench.cli.master import main
sys.argv[1:] = [*"{command}".split(), "-h"]
try:
    main()
except SystemExit:
    show()
"""
    names = {"cli", "commands", "core", "runner", "storage", "host", "ssbench.cli.options"}
    assert loaded(code) <= names


def test_a_worker_loads_neither_runner_nor_master() -> None:
    code = """
import ssbench.cli.start
sys.orig_argv = ["ssbench-worker", "--zmq-host", "h", "--processes=2", "-c", "4", "name"]
sys.argv[1:] = ["-h"]
try:
    ssbench.cli.start.worker()
except SystemExit:
    show()
"""
    assert loaded(code) == {"cli", "core", "host", "storage", "transport", "worker"}


def test_a_master_has_loaded_no_report_before_its_first_job() -> None:
    code = """
import ssbench.runner, ssbench.commands.run, ssbench.runner.single_run
show()
"""
    needed = {"ssbench.cli.options", "ssbench.transport.master_transport"}
    assert loaded(code).isdisjoint({"report", "worker", *SLOW} - needed)


def test_all_public_names_exist() -> None:
    for name in ssbench.__all__:
        assert getattr(ssbench, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        ssbench.no_such_name  # noqa: B018


def test_help_shows_the_public_functions_and_classes() -> None:
    shown = pydoc.plain(pydoc.render_doc(ssbench))
    for name in set(ssbench.__all__) - {"__version__"}:
        assert re.search(rf"^    (class )?{name}\b", shown, re.MULTILINE), name
        pydoc.render_doc(getattr(ssbench, name))
    assert "run" in dir(ssbench)


def test_the_documented_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs/reference/api.rst").read_text(encoding="utf-8")
    block = text.split(".. code-block:: python\n\n", 1)[1].split("\n\nA real store", 1)[0]
    exec(textwrap.dedent(block), {})
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("500 operations, 0 errors, ")
    assert second.startswith("OK {} /")


def test_the_documentation_has_every_setting_and_public_name() -> None:
    text = (ROOT / "docs/reference/api.rst").read_text(encoding="utf-8")
    for name in OPTIONS:
        assert f"\n``{name}``" in text, name
    for name in set(ssbench.__all__) - {"__version__", "ExitStatus"}:
        assert name in text, name
