"""What a run begins with: settings of its store, header, limits, checks, containers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from ssbench import __version__
from ssbench.cli.run_config import RunOptions
from ssbench.cli.session import Session
from ssbench.cli.stores import Store
from ssbench.core.dispatch.dispatcher import MAX_BATCH
from ssbench.core.errors import ScenarioError, SsbenchError
from ssbench.core.model import Phase
from ssbench.core.naming import RunNaming
from ssbench.core.operations import OPERATIONS
from ssbench.core.records import RunHeader
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.settings import StorageSettings
from ssbench.host import info
from ssbench.master.phases import Limits
from ssbench.runner.prepare import check, make_containers
from ssbench.storage.base import StoreAdmin
from ssbench.storage.registry import open_admin
from ssbench.storage.retrying_client import Renew


def settings_of(
    options: RunOptions, scenario: Scenario, store: Store, run_id: str
) -> StorageSettings:
    """What the workers open the store with in this run."""
    return replace(
        store.settings,
        run_id=run_id,
        sizes=scenario.sizes,
        container_base=scenario.container_base,
        container_count=scenario.container_count,
        placement=scenario.policy,
        delete_after_s=scenario.delete_after,
        block_size=scenario.block_size,
        compressible=options.compressible,
        verify=options.verify,
    )


def header_of(
    scenario: Scenario, run_id: str, seed: int, driver: str, *, verify: bool = False
) -> RunHeader:
    """What the stat file begins with."""
    return RunHeader(
        run_id=run_id,
        started_at=time.time(),
        ssbench_version=__version__,
        scenario_given=scenario.given,
        scenario=scenario.to_dict(),
        overrides=scenario.overrides,
        seed=seed,
        driver=driver,
        hosts=info.facts(),
        versions=info.versions(),
        verify=verify,
        operations=[row.to_map() for row in OPERATIONS.values()],
    )


def limits_of(options: RunOptions, scenario: Scenario, settings: StorageSettings) -> Limits:
    """The master's patience."""
    return Limits(
        worker_timeout_s=options.worker_timeout_s,
        worker_wait_s=options.worker_wait_s,
        fewer_workers_ok=options.fewer_workers_ok,
        operation_timeout_s=options.operation_timeout_s or 0.0,
        drain_timeout_s=options.drain_timeout_s,
        connect_timeout_s=settings.connect_timeout_s,
        max_consecutive_errors=options.max_consecutive_errors,
        max_batch=options.batch_size or MAX_BATCH,
        think_s=scenario.think_time or (0.0, 0.0),
    )


def check_store(session: Session, scenario: Scenario, settings: StorageSettings) -> None:
    """Hold the scenario against the store's limits; once a session.

    :raises ScenarioError: where the store can't take it.
    :raises SsbenchError: where the store can't be asked.
    """
    if session.has_containers:
        return
    storage = open_admin(settings)
    try:
        _check(session, scenario, storage, settings.run_id)
    except SsbenchError as error:
        if not session.interrupts.received:
            raise
        session.warn(str(error))  # it ends anyway, and in good order
    finally:
        storage.close()


def prepare_containers(
    session: Session,
    scenario: Scenario,
    store: Store,
    settings: StorageSettings,
    changing: Callable[[], None],
) -> None:
    """Make the containers, once a session. Workers that are here are kept meanwhile.

    :param changing: called before each request that changes the store.
    :raises SsbenchError: for the first container that can't be made.
    """
    if session.has_containers:
        return
    storage = open_admin(settings)
    try:
        with session.workers_kept():
            _make_containers(session, scenario, storage, settings.run_id, store.renew, changing)
        session.has_containers = True
    except SsbenchError as error:
        if not session.interrupts.received:
            raise
        session.warn(str(error))  # it ends anyway, and in good order
    finally:
        storage.close()


def _check(session: Session, scenario: Scenario, storage: StoreAdmin, run_id: str) -> None:
    found = check(storage.limits(), scenario, run_id)
    for warning in found.warnings:
        session.warn(warning)
    if found.faults:
        raise ScenarioError([f"{scenario.source}: {fault}" for fault in found.faults])


def _make_containers(
    session: Session,
    scenario: Scenario,
    storage: StoreAdmin,
    run_id: str,
    renew: Renew | None,
    changing: Callable[[], None],
) -> None:
    naming = RunNaming(
        scenario.sizes, run_id, scenario.container_base, scenario.container_count, scenario.policy
    )
    options, progress = session.options, session.progress
    progress.start_phase(Phase.IDLE, len(naming.containers))
    make_containers(
        storage, naming.containers, scenario.container_concurrency,
        progress.count, policy=scenario.policy,
        use_existing=options.use_existing, retries=options.retries,
        renew=renew, stopping=lambda: session.interrupts.received, changing=changing,
    )  # fmt: skip
    progress.end_phase()
