"""``ssbench-master run-scenario``: from a scenario to a report."""

from __future__ import annotations

import secrets
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime

from ssbench import __version__, hostinfo, statfile
from ssbench.cli import profile
from ssbench.cli.canned import find_scenario_text
from ssbench.cli.chosen import RunOptions
from ssbench.cli.interrupts import Interrupts
from ssbench.cli.local_workers import LocalWorkers
from ssbench.cli.progress import make_progress
from ssbench.cli.reporting import read_stats, write_report
from ssbench.cli.stores import Store, embedded_store, noop_store, reach_store
from ssbench.cli.wiring import bind, calm_collector, key_of
from ssbench.core.dispatch import MAX_BATCH, batch_limit
from ssbench.core.errors import (
    ExitStatus,
    ScenarioError,
    SsbenchError,
    StatFileError,
    gravest,
)
from ssbench.core.model import Operation, Phase
from ssbench.core.naming import Naming
from ssbench.core.records import RunFooter, RunHeader
from ssbench.core.scenario import Scenario
from ssbench.core.settings import StorageSettings
from ssbench.core.text import plural
from ssbench.core.workload import (
    InitialWorkload,
    bench_jobs,
    cleanup_jobs,
    initial_jobs,
)
from ssbench.master import Master
from ssbench.phases import Limits, PhaseOutcome
from ssbench.prepare import check, make_containers
from ssbench.statfile import StatFileWriter
from ssbench.storage import open_storage
from ssbench.storage.base import Storage
from ssbench.storage.errands import Renew
from ssbench.wirekey import Key


def run_scenario(options: RunOptions) -> ExitStatus:
    """The command; gives its exit status.

    :raises SsbenchError: for what ends it before there are results.
    """
    text, source = find_scenario_text(options.scenario, sys.stdin)
    scenario = Scenario.resolve(text, source, **options.overrides)
    with ExitStack() as stack:
        run = _Run(options, scenario, stack)
        try:
            with profile.profiled(options.profile, "master", run.progress.message):
                status = run.execute()
        except KeyboardInterrupt:
            run.say_where()
            run.say_what_is_left()
            raise
    run.report()
    return status


class _Run:
    """One run, step by step."""

    def __init__(self, options: RunOptions, scenario: Scenario, stack: ExitStack) -> None:
        self.options = options
        self.scenario = scenario
        self.run_id = secrets.token_hex(5)
        self.seed = scenario.seed if scenario.seed is not None else secrets.randbits(32)
        self.stack = stack
        self.interrupts = stack.enter_context(Interrupts())
        self.progress = stack.enter_context(make_progress(options.progress, quiet=options.quiet))
        self.warnings: list[str] = []
        self.skipped: Counter[Operation] = Counter()
        self.path = ""
        self._writer: StatFileWriter | None = None

    def say(self, text: str) -> None:
        """Tell the user, unless -q."""
        if not self.options.quiet:
            self.progress.message(text)

    def warn(self, text: str) -> None:
        """Tell the user in any case, and the stat file."""
        self.warnings.append(text)
        self.progress.message(f"WARNING: {text}")

    # The steps ----------------------------------------------------------------------------

    def execute(self) -> ExitStatus:
        """Everything up to the footer of the stat file."""
        self.say(f"ssbench {__version__}, run {self.run_id}, seed {self.seed}")
        writer = self._open_stat_file()
        store = self._reach_store()
        self._start_workers()
        settings = self._complete(store)
        writer.write(self._header(settings.driver))
        master = Master(
            self.wire, self.progress, settings,
            limits=self._limits(settings), recorder=writer, renew=store.renew, warn=self.warn,
        )  # fmt: skip
        self.interrupts.listen(master.interrupt)
        calm_collector()
        self.say(f'Starting scenario run for "{self.scenario.name}"')
        self._prepare(store, settings)
        return self._phases(master, writer)

    def _open_stat_file(self) -> StatFileWriter:
        scenario = self.scenario
        self.path = self.options.stats_file or str(
            statfile.default_path(
                scenario.name, scenario.user_count, scenario.operation_count,
                scenario.run_seconds, datetime.now(),
            )
        )  # fmt: skip
        self._writer = StatFileWriter.create(self.path, overwrite=self.options.force)
        return self.stack.enter_context(self._writer)

    def _start_workers(self) -> None:
        """Open the ports, and start those workers that are ours to start."""
        options = self.options
        key, address = key_of(options.zmq), options.zmq.address
        if options.workers and key is None and address is None:
            key, address = Key.generate(), "127.0.0.1"  # nobody but our own
        jobs = batch_limit(
            options.batch_size or MAX_BATCH,
            self.scenario.user_count,
            options.expect_workers or options.workers or 1,
        )
        self.wire = self.stack.enter_context(bind(options.zmq, key, address, self.warn, jobs))
        if not options.workers:
            return
        each = -(-self.scenario.user_count // options.workers)
        local = LocalWorkers(
            options.workers,
            concurrency=each,
            wire=self.wire,
            key=key,
            retries=options.retries,
            verbose=options.verbose,
        )
        for path in self.stack.enter_context(local).logs:
            users = plural(each, "user")
            self.say(f"Spawned a local ssbench-worker for {users}, logging to {path}")

    def _reach_store(self) -> Store:
        if self.options.noop:
            return noop_store()
        if self.options.embedded_swift:
            self.say("Starting a throw-away Swift on this host")
            return embedded_store(self.stack)
        assert self.options.store is not None  # nosec B101 # chosen.py sees to it
        return reach_store(self.options.store, self.warn)

    def _complete(self, store: Store) -> StorageSettings:
        scenario = self.scenario
        return replace(
            store.settings,
            run_id=self.run_id,
            sizes=scenario.sizes,
            container_base=scenario.container_base,
            container_count=scenario.container_count,
            policy=scenario.policy,
            delete_after_s=scenario.delete_after,
            block_size=scenario.block_size,
            compressible=self.options.compressible,
        )

    def _header(self, driver: str) -> RunHeader:
        return RunHeader(
            run_id=self.run_id,
            started_at=time.time(),
            ssbench_version=__version__,
            scenario_given=self.scenario.given,
            scenario=self.scenario.to_dict(),
            overrides=self.scenario.overrides,
            seed=self.seed,
            driver=driver,
            hosts=hostinfo.facts(),
            versions=hostinfo.versions(),
        )

    def _limits(self, settings: StorageSettings) -> Limits:
        options = self.options
        return Limits(
            worker_timeout_s=options.worker_timeout_s,
            worker_wait_s=options.worker_wait_s,
            operation_timeout_s=options.operation_timeout_s or 0.0,
            drain_timeout_s=options.drain_timeout_s,
            connect_timeout_s=settings.connect_timeout_s,
            max_consecutive_errors=options.max_consecutive_errors,
            max_batch=options.batch_size or MAX_BATCH,
        )

    def _prepare(self, store: Store, settings: StorageSettings) -> None:
        """Hold the scenario against the store's limits, and make the containers."""
        storage = open_storage(settings)
        try:
            self._check(storage)
            self._make_containers(storage, store.renew)
        except SsbenchError as error:
            if not self.interrupts.came:
                raise
            self.warn(str(error))  # it ends anyway, and in good order
        finally:
            storage.close()

    def _check(self, storage: Storage) -> None:
        found = check(storage.limits(), self.scenario, self.run_id)
        for warning in found.warnings:
            self.warn(warning)
        if found.faults:
            raise ScenarioError([f"{self.scenario.source}: {fault}" for fault in found.faults])

    def _make_containers(self, storage: Storage, renew: Renew | None) -> None:
        scenario = self.scenario
        naming = Naming(
            scenario.sizes, self.run_id, scenario.container_base,
            scenario.container_count, scenario.policy,
        )  # fmt: skip
        self.progress.start_phase(Phase.IDLE, len(naming.containers))
        make_containers(
            storage, naming.containers, scenario.container_concurrency,
            self.progress.count, policy=scenario.policy,
            use_existing=self.options.use_existing, retries=self.options.retries,
            renew=renew, stopping=lambda: self.interrupts.came,
        )  # fmt: skip
        self.progress.end_phase()

    def _phases(self, master: Master, writer: StatFileWriter) -> ExitStatus:
        initial = initial_jobs(self.scenario)
        outcome = PhaseOutcome.nothing("interrupted", "interrupted before it began")
        try:
            expected = self.options.expect_workers or self.options.workers
            master.gather(self.scenario.user_count, expected)
            outcome = self._populate_and_run(master, initial)
            if outcome.ended in ("exhausted", "failed") and not master.record_error:
                self.warn(outcome.reason)
            self._clean_up(master, initial)
        finally:
            master.dismiss()
            if not master.record_error:  # said already, and nothing more can be written
                self._conclude(master, writer, self._footer(master, outcome, initial))
        return self._status(master, outcome)

    def _populate_and_run(self, master: Master, initial: InitialWorkload) -> PhaseOutcome:
        if self.interrupts.came:
            return PhaseOutcome.nothing("interrupted", self.interrupts.reason)
        users = self.scenario.user_count
        populated = master.run_phase(Phase.POPULATE, initial, users)
        if populated.ended != "complete":
            return PhaseOutcome.nothing(populated.ended, populated.reason)
        if initial.missing == initial.total:
            return PhaseOutcome.nothing(
                "failed", f"no initial object could be uploaded: {populated.example}"
            )
        if initial.missing:
            why = populated.example or "they were lost with their worker"
            self.warn(
                f"{initial.missing} of {initial.total} initial objects could not be uploaded"
                f" ({why}); the run goes on without them"
            )
        bench = bench_jobs(self.scenario, self.seed, initial.population)
        self.skipped = bench.skipped
        return master.run_phase(Phase.RUN, bench, users, self.scenario.run_seconds)

    def _clean_up(self, master: Master, initial: InitialWorkload) -> None:
        """Delete what the run created."""
        cleanup = cleanup_jobs(initial.population)
        if self.options.keep_objects or not cleanup.total:
            return
        outcome = master.run_phase(Phase.CLEANUP, cleanup, self.scenario.user_count)
        if cleanup.left_behind:
            why = outcome.reason or outcome.example
            because = f" ({why})" if why else ""
            self.warn(
                f"{cleanup.left_behind} objects of this run could not be deleted{because};"
                f" cleanup-containers --resume-cleanup {self.path} tries again"
            )

    def _conclude(self, master: Master, writer: StatFileWriter, footer: RunFooter) -> None:
        try:
            writer.write(footer)
        except StatFileError as error:
            master.record_error = error
            self.warn(str(error))

    def _footer(
        self,
        master: Master,
        outcome: PhaseOutcome,
        initial: InitialWorkload,
    ) -> RunFooter:
        ended, reason = outcome.ended, outcome.reason
        if ended == "complete" and self.interrupts.came:
            ended, reason = "interrupted", f"{self.interrupts.reason} during clean-up"
        return RunFooter(
            ended_at=time.time(),
            ended=ended,
            reason=reason,
            run_seconds=outcome.seconds,
            lost=outcome.counts.lost,
            refused=master.refused + self.wire.refused,
            skipped={operation.name: n for operation, n in self.skipped.items()},
            workers_lost=tuple(master.workers_lost),
            warnings=tuple(self.warnings),
            # Asked for last: the clean-up may have been cut short by a second Ctrl-C.
            left_behind=initial.population.left_behind,
            sent=outcome.counts.sent - outcome.counts.withdrawn,
        )

    def _status(self, master: Master, outcome: PhaseOutcome) -> ExitStatus:
        statuses = [ExitStatus.OK]
        if outcome.ended == "failed" or master.record_error:
            statuses.append(ExitStatus.FAILED)
        if outcome.counts.failed and not outcome.counts.done:
            statuses.append(ExitStatus.FAILED)
        if self.interrupts.came:
            statuses.append(ExitStatus.INTERRUPTED)
        if master.workers_lost:
            statuses.append(ExitStatus.WORKERS_LOST)
        return gravest(statuses)

    # Afterwards ---------------------------------------------------------------------------

    def report(self) -> None:
        """Print the report, unless -R, and where the results are."""
        if self._writer and not self._writer.kept:
            self.say(f"No report: the results went to {self.path}")
            return
        if not self.options.no_default_report:
            form = "csv" if self.options.csv else "text"
            write_report(read_stats(self.path), form, self.options.percentiles)
        self.say_where()

    def say_where(self) -> None:
        """Where the results are, and how to look at them again."""
        if self._has_results() and not self.options.quiet:
            print(
                f"Results are in {self.path}\nReport on them again with:\n"
                f"  {sys.argv[0]} report-scenario -s {self.path}",
                file=sys.stderr,
            )

    def say_what_is_left(self) -> None:
        """Where the run was left in the midst of it: how to be rid of what it created."""
        if self._has_results() and not (self.options.quiet or self.options.noop):
            print(
                "What the run created may still be there; this deletes it:\n"
                f"  {sys.argv[0]} cleanup-containers --resume-cleanup {self.path}",
                file=sys.stderr,
            )

    def _has_results(self) -> bool:
        return self._writer is not None and self._writer.kept and self._writer.blocks > 0
