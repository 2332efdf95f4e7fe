"""What a run begins with."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace

import pytest

from ssbench.cli.interrupts import Interrupts
from ssbench.cli.options import master_parser
from ssbench.cli.run_config import RunOptions, run_options
from ssbench.cli.run_setup import (
    check_store,
    header_of,
    limits_of,
    prepare_containers,
    settings_of,
)
from ssbench.cli.session import Session
from ssbench.cli.stores import Store, reach_store
from ssbench.core.errors import ScenarioError
from ssbench.core.scenario.scenario import Scenario
from ssbench.storage.base import StoreLimits
from ssbench.storage.noop import NoopStorage
from ssbench.storage.options import StoreOptions
from tests.cli.test_master import free_ports
from tests.cli.test_series import TEXT

SCENARIO = Scenario.resolve(TEXT, "own.scenario", run_seconds=30, think_time=[1, 2], policy="gold")


def noop_store() -> Store:
    return reach_store(StoreOptions("noop"), print, Interrupts())


def options(*words: str) -> RunOptions:
    line = ["run-scenario", "-f", "s", "--noop", *free_ports(), *words]
    return run_options(master_parser().parse_args(line), {})


def test_the_settings_have_what_workers_name_objects_by() -> None:
    settings = settings_of(options("--compressible"), SCENARIO, noop_store(), "run1")
    assert (settings.run_id, settings.driver, settings.placement) == ("run1", "noop", "gold")
    assert settings.sizes == SCENARIO.sizes
    assert (settings.container_base, settings.container_count) == ("ssbench", 100)
    assert settings.compressible


def test_the_header_has_the_scenario_as_it_was_given_and_as_it_is_run() -> None:
    header = header_of(SCENARIO, "run1", 7, "noop")
    assert (header.run_id, header.seed, header.driver) == ("run1", 7, "noop")
    assert header.scenario_given == json.loads(TEXT)
    assert header.scenario["run_seconds"] == 30
    assert header.overrides["policy"] == "gold"


def test_the_limits_are_those_of_the_options() -> None:
    chosen = options("--drain-timeout", "5", "--max-consecutive-errors", "3", "--batch-size", "8")
    limits = limits_of(chosen, SCENARIO, replace(noop_store().settings, connect_timeout_s=4.0))
    assert (limits.drain_timeout_s, limits.max_consecutive_errors, limits.max_batch) == (5, 3, 8)
    assert (limits.connect_timeout_s, limits.operation_timeout_s) == (4, 0)
    assert limits.think_s == (1, 2)


def test_containers_are_made_once_for_all_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(
        NoopStorage, "make_container", lambda self, name, changing: made.append(name)
    )
    store = noop_store()
    with ExitStack() as stack:
        session = Session(options(), stack, Interrupts(), most_users=4, seed=1)
        for run_id in ("run1", "run2"):
            settings = settings_of(options(), SCENARIO, store, run_id)
            prepare_containers(session, SCENARIO, store, settings, lambda: None)
    assert len(made) == 100


def test_a_scenario_that_the_store_cannot_take_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = StoreLimits(max_object_size=50)
    monkeypatch.setattr(NoopStorage, "limits", lambda self: limits)
    store = noop_store()
    with ExitStack() as stack:
        session = Session(options(), stack, Interrupts(), most_users=4, seed=1)
        with pytest.raises(ScenarioError, match=r"own\.scenario: .*more than"):
            check_store(session, SCENARIO, settings_of(options(), SCENARIO, store, "run1"))
        assert not session.has_containers
