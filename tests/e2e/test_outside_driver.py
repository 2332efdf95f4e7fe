"""A driver outside of the package (docs/how-to/drivers), as its author and its users run it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ssbench.core.errors import ExitStatus
from tests.e2e.commands import ROOT, Commands, finished, free_ports, until, workers_of
from tests.e2e.test_secrets import Watcher, none_has, nowhere
from tests.servers.dictstore import DRIVER, FOLDER, DictStore

pytestmark = pytest.mark.e2e
OPERATIONS = {"create": 2, "read": 3, "update": 1, "delete": 1, "append_tag": 1, "head": 1}


@pytest.fixture
def store() -> Iterator[DictStore]:
    with DictStore() as store:
        yield store


def environment(store: DictStore) -> dict[str, str]:
    return {**store.environment, "PYTHONPATH": f"{ROOT}:{FOLDER}"}


def scenario(commands: Commands, **keys: object) -> Path:
    return commands.scenario(**{"operations": OPERATIONS, "container_base": "out", **keys})


def test_it_runs_in_two_workers_and_shows_no_secret(commands: Commands) -> None:
    with DictStore(token_life_s=2) as store:
        path = scenario(commands)
        started = commands.start_run(
            "-v", "-f", path, "-r", "3600", "--think-time", "0.1", "--verify", *store.options,
            environment=environment(store), program=True,
        )  # fmt: skip
        with Watcher(started) as watcher:
            until("operations", lambda: started.on_disk("READ") > 20)
            started.interrupt()
            ended = started.wait().fine(ExitStatus.INTERRUPTED)
        assert ended.counted()[1] == 0
        assert ended.counted("APPEND_TAG")[0] > 0
        assert len(workers_of(ended.results)) == 2
        none_has(watcher.public, store.key)
        none_has(watcher.inherited, store.key, "DICTSTORE_KEY")
        nowhere(commands.place, store.key)
        # A process that doesn't know the driver reports its operation, too.
        report = commands.call("report-scenario", "-s", ended.results).fine()
        assert report.counted("APPEND_TAG") == ended.counted("APPEND_TAG")


def test_leftovers_of_a_killed_master_are_cleaned_up(commands: Commands, store: DictStore) -> None:
    path = scenario(commands, operation_count=10**6)
    started = commands.start_run(
        "-f", path, "--think-time", 0.02, *store.options, environment=environment(store), workers=1
    )
    until("objects", lambda: started.on_disk("CREATE") > 20)
    started.kill()
    words = ["cleanup-containers", "--resume-cleanup", started.stat_file]
    wrong = commands.call(*words, "-A", "http://h/auth", "-U", "u", "-K", "k").fine(2)
    assert f"its run used another store: give --storage {DRIVER}" in wrong.err
    given = {"environment": environment(store)}
    ended = commands.master(*words, *store.options, **given).wait().fine()
    assert "Deleted " in ended.out
    again = commands.master(*words, *store.options, **given).wait().fine()
    assert "Nothing was left of run" in again.out
    cleaned = commands.master("cleanup-containers", "-b", "out", *store.options, **given)
    assert "3 containers" in cleaned.wait().fine().out


def test_a_worker_without_permission_for_the_driver_rejects_the_run(
    commands: Commands, store: DictStore
) -> None:
    ports = free_ports()
    worker = commands.worker(*ports, "far", environment=environment(store))
    started = commands.start_run(
        "-f", scenario(commands), "--expect-workers", 1, *store.options,
        workers=None, ports=ports, environment=environment(store),
    )  # fmt: skip
    ended = started.wait().fine(ExitStatus.FAILED)
    reason = (
        f'driver "{DRIVER}" is not loaded here: start this worker with --allow-driver dictstore'
    )
    last = ended.err.splitlines()[-1]
    assert last.startswith("ssbench-master: no worker could open the store: ")
    assert reason in last
    assert reason in worker.wait().fine(1).err


def test_a_worker_with_permission_for_the_driver_takes_part(
    commands: Commands, store: DictStore
) -> None:
    ports = free_ports()
    given = {"environment": environment(store)}
    commands.worker("--allow-driver", "dictstore", "--exit-with-master", *ports, "far", **given)
    ended = commands.run(
        "-f", scenario(commands), "--expect-workers", 2, "--zmq-bind-ip", "127.0.0.1",
        *store.options, workers=1, ports=ports, **given,
    ).fine()  # fmt: skip
    assert sum(finished(ended.stats).values()) == 60
    assert len(workers_of(ended.results)) == 2


def test_a_wrong_key_is_refused_and_not_shown(commands: Commands, store: DictStore) -> None:
    wrong = {**environment(store), "DICTSTORE_KEY": "wr0ng-key"}
    ended = commands.run("-f", scenario(commands), *store.options, environment=wrong)
    assert "the key was refused (401)" in ended.one_line()
    secret = ["--storage", DRIVER, "--storage-option", f"key={store.key}"]
    ended = commands.run("-f", scenario(commands), *secret, environment=environment(store)).fine(2)
    assert "set DICTSTORE_KEY in the environment" in ended.err
    nowhere(commands.place, store.key, "wr0ng-key")
