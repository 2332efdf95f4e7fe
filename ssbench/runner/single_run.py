"""One run, step by step: from a scenario to a stat file."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ssbench import __version__, statfile
from ssbench.core.errors import (
    ExitStatus,
    NoWorkersError,
    ScenarioError,
    SsbenchError,
    StatFileError,
    UsageError,
    gravest,
    most_failed,
)
from ssbench.core.model import ObjectLock, Phase
from ssbench.core.naming import RUN_ID_BYTES, naming_of
from ssbench.core.operations import OPERATIONS, Effect, row_of
from ssbench.core.records import RunFooter, RunHeader
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.scenario.storage_keys import StorageKeys
from ssbench.core.settings import StorageSettings
from ssbench.core.text import plural
from ssbench.core.workload.bench import bench_jobs, why_not_held
from ssbench.core.workload.division import load_of
from ssbench.core.workload.workload import EnsureWorkload, InitialWorkload, divided, initial_jobs
from ssbench.host import metrics
from ssbench.master.phase_machine import PhaseOutcome, PhasePlan
from ssbench.runner.config import RunPlan
from ssbench.runner.containers import keeping_versions
from ssbench.runner.prepare import (
    check_marks,
    check_results_space,
    check_store,
    make_containers,
)
from ssbench.runner.session import Session, counted_phase
from ssbench.statfile import StatFileWriter
from ssbench.storage.registry import check_capabilities, destination_of

if TYPE_CHECKING:
    from ssbench.core.stats.steady import ThresholdWatch
    from ssbench.master.master import Master
    from ssbench.runner.results import StoredStats
    from ssbench.runner.session import Store

#: So long at most a clean-up waits until versions can be deleted.
LONGEST_WAIT_S = 60
#: Users that upload or delete objects around a run, unless the run itself has more.
MAX_SETUP_USERS = 64


class RunResult(Struct):
    """What became of a run."""

    run_id: str
    path: str  #: of the stat file
    #: Exit statuses that apply, and why; empty: all is well.
    reasons: dict[ExitStatus, str]
    readable: bool  #: the stat file can be read again; False for /dev/null or a pipe
    has_results: bool  #: and there is something in it
    in_part: bool  #: writing failed (the disk was full, say): the file is cut off
    outcome: PhaseOutcome  #: of the run phase
    header: RunHeader | None = None  #: of the stat file, once it is written
    _stats: Any = None  #: StoredStats; help() evaluates this, and that module loads slowly

    def __repr__(self) -> str:
        counts = self.outcome.counts
        return (
            f"<RunResult {self.exit_status.name}: {counts.done:,} done, {counts.failed:,} failed,"
            f" {counts.lost:,} lost; {self.path}>"
        )

    @property
    def exit_status(self) -> ExitStatus:
        """The gravest of the reasons."""
        return gravest([*self.reasons])

    @property
    def stats(self) -> StoredStats:
        """The statistics, read from the stat file when they are first asked for.

        :raises StatFileError: the file can't be read.
        """
        if self._stats is None:
            from ssbench.runner.results import read_stats  # loads numpy

            self._stats = read_stats(self.path)
        stats: StoredStats = self._stats
        return stats


class Aborted(KeyboardInterrupt):
    """A run was ended at once, after it had changed the store; objects may remain there."""

    def __init__(self, reason: str, result: RunResult) -> None:
        super().__init__(reason)
        self.result = result


class Run:
    """One run, step by step.

    :param path: of the stat file; None: one named after the scenario.
    """

    def __init__(
        self,
        session: Session,
        scenario: Scenario,
        path: str | None = None,
        plan: RunPlan | None = None,
    ) -> None:
        self.session = session
        self.plan = plan or RunPlan()
        self.config = session.config
        self.stop = session.stop
        if self.config.compressible or self.config.existing:  # the content is another
            scenario = replace(scenario, compressible=0.0, duplicate=0.0)
        self.scenario = scenario
        self.run_id = secrets.token_hex(RUN_ID_BYTES)
        self.outcome = PhaseOutcome.nothing("interrupted", "interrupted before it began")
        self.reasons: dict[ExitStatus, str] = {}
        self._started_at = time.time()
        self._header: RunHeader | None = None
        self._watch: ThresholdWatch | None = None
        self.path = path or str(
            statfile.default_path(
                scenario.name, scenario.user_count, scenario.operation_count,
                scenario.run_seconds, datetime.now(), results_dir=self.config.results_dir,
            )
        )  # fmt: skip

    def execute(self) -> RunResult:
        """Run; returns when the stat file is complete and closed.

        :raises SsbenchError: it failed before there were results.
        :raises KeyboardInterrupt: it was stopped before the store was changed.
        :raises Aborted: it was ended at once after that.
        """
        self.session.warnings.clear()
        writer = None
        try:
            with StatFileWriter.create(self.path, overwrite=self.config.force, hold=True) as writer:
                judged = self.config.thresholds or self.scenario.thresholds
                if judged and not writer.readable:
                    raise UsageError(f"thresholds need results to judge by: {self.path} keeps none")
                self._execute(writer)
        except KeyboardInterrupt as interrupt:
            if writer is None or not writer.blocks:
                raise
            raise Aborted(str(interrupt), self._result(writer)) from None
        return self._result(writer)

    def _result(self, writer: StatFileWriter) -> RunResult:
        has_results = writer.readable and writer.blocks > 0
        return RunResult(
            self.run_id, self.path, self.reasons, writer.readable, has_results, writer.failed,
            self.outcome, self._header,
        )  # fmt: skip

    def _execute(self, writer: StatFileWriter) -> None:
        session, scenario = self.session, self.scenario
        session.info(f"ssbench {__version__}, run {self.run_id}, seed {session.seed}")
        store = session.store()
        if self.config.existing:
            self._use_existing(self.config.existing)
        settings = self._settings(store)
        self._check_capabilities(settings)
        self.stop.check()
        self._header = header = self._make_header(settings)
        writer.write(header)
        session.describe_run(header)
        master = session.master(settings, writer)
        session.info(f'Starting scenario run for "{scenario.name}"')
        space = check_results_space(self.path, scenario) if writer.readable else ""
        if space:
            session.warn(space)
        unheld = why_not_held(scenario) if self.plan.workload is None else ""
        if unheld:
            session.warn(f"The mix of operations can't be held: {unheld}")
        if session.has_containers:
            writer.release()  # earlier runs of the series changed the store
        try:
            # The store is checked while workers start; containers are made once they are here.
            self._check_store(settings)
            self._wait_for_workers(master)
            self._prepare_containers(settings, writer)
        except BaseException:
            self._release_workers(master)
            raise
        self._phases(master, writer)

    def _use_existing(self, place: str) -> None:
        """List the objects that are read, once a session, and plan the run on them.

        :raises UsageError: the scenario has operations that change objects.
        """
        from ssbench.runner.existing import check_existing, list_existing

        check_existing(self.scenario)
        session = self.session
        if session.existing is None:
            try:
                with session.client(exact_names=True) as client, session.workers_kept():
                    found = list_existing(client, place, self.scenario, session.wait_for)
            finally:
                session.wait_for("")
            self.stop.check()
            session.existing = found
            used = len(found.names)
            some = f"; {used:,} of them are used" if used < found.listed else ""
            session.info(f"{place} has {plural(found.listed, 'object')} to read{some}")
        for line in session.existing.left_out:
            session.warn(line)
        if self.scenario.populate_headers:
            session.warn(
                f"{self.scenario.source}: populate_headers has no effect: {place} stays as it is"
            )
        self.scenario, self.plan = session.existing.prepare(self.scenario, session.seed)

    def _settings(self, store: Store) -> StorageSettings:
        """What the workers open the store with."""
        own = settings_of(store.settings, self.scenario)
        return replace(
            own,
            run_id=self.run_id,
            compressible=self.config.compressible,
            verify=self.config.verify,
            names=self.plan.names or own.names,
            contents=self.plan.contents,
        )

    def _make_header(self, settings: StorageSettings) -> RunHeader:
        scenario = self.scenario
        return RunHeader(
            run_id=self.run_id,
            started_at=self._started_at,
            ssbench_version=__version__,
            scenario_given=scenario.given,
            scenario=scenario.to_dict(),
            overrides=scenario.overrides,
            seed=self.session.seed,
            driver=settings.driver,
            hosts=metrics.facts(),
            versions=metrics.versions(),
            verify=self.config.verify,
            operations=tuple(row.to_map() for row in OPERATIONS.values()),
            names=settings.names,
            store={
                **destination_of(settings),
                **({"existing": self.config.existing} if self.config.existing else {}),
            },
        )

    def _check_capabilities(self, settings: StorageSettings) -> None:
        """:raises ScenarioError: the kind of store can't run the scenario."""
        scenario = self.scenario
        lacking = check_capabilities(settings, scenario.operations, scenario.to_dict())
        if lacking:
            raise ScenarioError(
                [f"{scenario.places.get(key, scenario.source)}: {line}" for key, line in lacking]
            )

    def _check_store(self, settings: StorageSettings) -> None:
        """Compare the scenario with the store's limits, once a session.

        :raises ScenarioError: the store can't run it.
        :raises SsbenchError: the store can't be asked.
        """
        session, scenario = self.session, self.scenario
        if session.has_containers or not self.plan.uploads:
            return
        try:
            with session.client(settings) as client:
                found = check_store(client.storage, settings, scenario)
                for warning in found.warnings:
                    session.warn(warning)
                if found.faults:
                    raise ScenarioError(found.faults)
                # One of each identity, which may have an account or a bucket of its own.
                count = len(settings.store.get("identities", ())) or 1
                some = naming_of(settings).containers[:count]
                versioned = keeping_versions(client, some)
            session.keeps_versions = bool(versioned) or scenario.versioning
            if versioned and not self._has_own_names:
                session.warn(
                    f"{versioned[0]} keeps versions of replaced and deleted objects: those of this"
                    " run stay until the container is deleted, since their names do not say which"
                    " they are"
                )
            if lock := scenario.object_lock:
                session.warn(self._lock_text(lock))
        except SsbenchError as error:
            if not self.stop.requested:
                raise
            session.warn(str(error))  # it ends anyway, gracefully

    def _wait_for_workers(self, master: Master) -> None:
        """Wait for workers; a later run of a series continues with those that are left."""
        session = self.session
        if session.has_workers:
            master.wait_for_workers(self.scenario.most_users, 1)
            return
        looks = session.config.looks_for_workers
        if looks and not master.finds_worker() and not self.stop.requested:
            session.start_workers()
        try:
            master.wait_for_workers(session.wanted_users, session.expected_workers)
        except NoWorkersError as error:
            raise type(error)(f"{error}{session.unreached}") from error
        session.has_workers = True

    def _prepare_containers(self, settings: StorageSettings, writer: StatFileWriter) -> None:
        """Create the containers, once a session. A run without uploads creates none, and only
        changes objects in containers with our mark.

        From the first change of the store on there is a stat file, and a report of a stopped run.

        :raises KeyboardInterrupt: it was stopped before that.
        :raises SsbenchError: a container can't be made, or is not ours.
        """
        session = self.session
        changes = any(row_of(each).effect is not Effect.NONE for each in self.scenario.operations)
        needed = self.plan.uploads or (changes and not self.config.use_existing)
        if needed and not self.stop.requested and not session.has_containers:
            try:
                with session.workers_kept():
                    self._make_containers(settings, writer.release)
                session.has_containers = True
            except SsbenchError as error:
                if not self.stop.requested:
                    raise
                session.warn(str(error))  # it ends anyway, gracefully
        if self.stop.requested and writer.held:
            self.stop.end()
        writer.release()  # the initial objects may be next

    def _make_containers(self, settings: StorageSettings, changing: Callable[[], None]) -> None:
        scenario, session = self.scenario, self.session
        containers = naming_of(settings).containers
        with (
            session.client(settings, scenario.container_concurrency) as client,
            counted_phase(session.observers, Phase.IDLE, len(containers)) as progress,
        ):
            if not self.plan.uploads:
                check_marks(client, containers, progress)
                return
            make_containers(
                client, containers, progress, policy=scenario.policy,
                use_existing=self.config.use_existing, changing=changing,
            )  # fmt: skip

    def _release_workers(self, master: Master) -> None:
        """Release the workers, unless another run of a series may need them."""
        if not self.session.is_series:
            master.release_workers()

    def _phases(self, master: Master, writer: StatFileWriter) -> None:
        self._division = self.config.division if self.plan.workload is None else None
        self._workload = self.plan.workload or initial_jobs(self.scenario, self._division)
        try:
            self.outcome = outcome = self._populate_and_run(master)
            if outcome.ended in ("exhausted", "failed") and not master.recorder.error:
                self.session.warn(outcome.reason)
            if outcome.counts.corrupt:
                met = plural(outcome.counts.corrupt, "operation")
                self.session.warn(f"{met} found corrupt content; the exit status will not be 0")
            self._clean_up(master)
            if self.session.keeps_versions and self._has_own_names and not self.config.keep_objects:
                with self.session.workers_kept():
                    self._delete_versions()
            if master.workers_lost and self.scenario.large_object:
                with self.session.workers_kept():
                    self._abort_uploads()
        finally:
            self._release_workers(master)
            if not master.recorder.error:  # else it was reported, and nothing can be written
                try:
                    writer.write(self._footer(master))
                except StatFileError as error:
                    master.recorder.error = error
                    self.session.warn(str(error))
        self._judge(master)

    def _populate_and_run(self, master: Master) -> PhaseOutcome:
        scenario = self.scenario
        initial = self.plan.prepared or self._workload
        if self.stop.requested:
            return PhaseOutcome.nothing("interrupted", self.stop.reason)
        if isinstance(initial, EnsureWorkload) and initial.total and not self.session.has_objects:
            failure = self._populate(master, initial)
            if failure is not None:
                return failure
        if isinstance(initial, InitialWorkload):
            self._workload = bench_jobs(
                scenario, self.session.seed, initial.population, self.config.verify, self.run_id,
                self._division,
            )  # fmt: skip
        detector = None
        if self.config.auto_stop:
            from ssbench.core.stats.steady import SteadyStateDetector

            detector = SteadyStateDetector(
                window_s=self.config.auto_stop_window_s,
                tolerance=self.config.auto_stop_percent / 100,
                warmup_s=scenario.warmup,
                no_bytes=self.config.is_noop,
            )
        if self.config.abort_window_s:
            from ssbench.core.stats.steady import ThresholdWatch
            from ssbench.core.stats.thresholds import thresholds_of

            self._watch = ThresholdWatch(
                thresholds_of(scenario, self.config.thresholds),
                self.config.abort_window_s,
                total=scenario.operation_count,
                warmup_s=scenario.warmup,
            )
        plan = PhasePlan(
            Phase.RUN, divided(self._workload, self._division), scenario.most_users,
            scenario.run_seconds, load_of(scenario, self._division), detector, self._watch,
            scenario.think_time or (0.0, 0.0),
        )  # fmt: skip
        return master.run_phase(plan)

    @property
    def _setup_users(self) -> int:
        """Users that populate and clean up: more than one, even for a step with one user."""
        return max(self.scenario.most_users, min(self.session.wanted_users, MAX_SETUP_USERS))

    def _populate(self, master: Master, initial: EnsureWorkload) -> PhaseOutcome | None:
        """Upload initial objects that are missing; returns the outcome if there is no run."""
        populated = master.run_phase(
            PhasePlan(Phase.POPULATE, divided(initial, self._division), self._setup_users)
        )
        if populated.ended != "complete":
            return PhaseOutcome.nothing(populated.ended, populated.reason)
        if initial.missing == initial.total:
            return PhaseOutcome.nothing(
                "failed", f"no initial object could be uploaded: {populated.example}"
            )
        if initial.missing:
            why = populated.example or "they were lost with their worker"
            self.session.warn(
                f"{initial.missing} of {initial.total} initial objects could not be uploaded"
                f" ({why}); the run continues without them"
            )
        else:
            self.session.has_objects = self.scenario.keeps_initial_objects
        return None

    def _clean_up(self, master: Master) -> None:
        cleanup = self._workload.cleanup()
        if self.config.keep_objects or cleanup is None:
            return
        outcome = master.run_phase(
            PhasePlan(Phase.CLEANUP, divided(cleanup, self._division), self._setup_users)
        )
        left = self._workload.left_behind
        if left and not self.config.is_noop:
            why = outcome.reason or outcome.example
            because = f" ({why})" if why else ""
            again = f"; cleanup-containers --resume-cleanup {self.path} tries again"
            self.session.warn(
                f"{plural(left, 'object')} of this run could not be deleted{because}"
                f"{again if self._has_own_names else ''}"
            )

    @property
    def _has_own_names(self) -> bool:
        """Whether cleanup-containers can tell the run's objects by their names."""
        from ssbench.runner.orphans import KINDS  # loads slowly

        return self.plan.names.get("kind", "run") in KINDS

    def _lock_text(self, lock: ObjectLock) -> str:
        """What nobody can delete, and until when."""
        until = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(time.time() + lock.seconds))
        who = "nobody" if lock.mode == "compliance" else "nobody without a permission for that"
        then = "the clean-up waits for that"
        if lock.seconds > LONGEST_WAIT_S:
            then = f"cleanup-containers -b {self.scenario.container_base} does it then"
        return (
            f"object_lock: {who} can delete what this run uploads for {lock.seconds:,} s after its"
            f" upload, until {until} or later; {then}"
        )

    def _delete_versions(self) -> None:
        """Delete the versions that the run's operations have left, and wait for short locks."""
        from ssbench.runner.orphans import OrphanedObjects, delete_run_versions  # load slowly

        session, lock = self.session, self.scenario.object_lock
        settings = self._settings(session.store())
        orphans = OrphanedObjects(self.scenario, self.run_id)
        ended_s = time.monotonic()
        with session.client(settings, self._setup_users, stoppable=False) as client:
            versioned = keeping_versions(client, naming_of(settings).containers)
            found = delete_run_versions(client, orphans, versioned)
            if lock and found.failed_objects and lock.seconds <= LONGEST_WAIT_S:
                session.info("Waiting until the locks of this run's versions end")
                while time.monotonic() <= ended_s + lock.seconds + 1 and not self.stop.requested:
                    client.sleep(0.2)
                found = delete_run_versions(client, orphans, versioned)
        if not found.ok or found.ended_early:
            left = plural(found.failed_objects, "version") if found.failed_objects else "Versions"
            why = found.examples[0] if found.examples else found.abort_reason or "interrupted"
            again = f"cleanup-containers --resume-cleanup {self.path} tries again"
            session.warn(f"{left} of this run could not be deleted ({why}); {again}")

    def _abort_uploads(self) -> None:
        """Abort the uploads of objects in parts that lost workers left open. The clean-up did that
        for objects that the run created, so these are of initial objects.

        A lost worker began none after its lease, which ended before the master gave it up.
        """
        from ssbench.runner.orphans import (  # load slowly
            OrphanedObjects,
            abort_orphaned_uploads,
        )

        session, warn = self.session, self.session.warn
        settings = self._settings(session.store())
        if not self._has_own_names:
            return
        period = (self._started_at, time.time())
        orphans = OrphanedObjects(self.scenario, self.run_id, period=period)
        concurrency = self.scenario.container_concurrency
        with session.client(settings, concurrency, stoppable=False) as client:
            found = abort_orphaned_uploads(client, orphans)
        if found.uploads:
            warn(f"Aborted {plural(found.uploads, 'upload')} that lost workers had left open")
        if found.examples:
            again = f"cleanup-containers --resume-cleanup {self.path} tries again"
            warn(f"Uploads of lost workers may stay open ({found.examples[0]}); {again}")

    def _footer(self, master: Master) -> RunFooter:
        outcome, workload = self.outcome, self._workload
        ended, reason = outcome.ended, outcome.reason
        if ended == "complete" and self.stop.requested:
            ended, reason = "interrupted", f"{self.stop.reason} during clean-up"
        return RunFooter(
            ended_at=time.time(),
            ended=ended,
            reason=reason,
            run_seconds=outcome.seconds,
            lost=outcome.counts.lost,
            late=outcome.never_started,
            refused=master.rejected,
            skipped={row_of(operation).name: n for operation, n in workload.skipped.items()},
            workers_lost=tuple(master.workers_lost),
            warnings=tuple(self.session.warnings),
            left_behind=workload.left_behind,
            left_unknown=workload.left_unknown,
            sent=outcome.counts.sent - outcome.counts.withdrawn,
        )

    def _judge(self, master: Master) -> None:
        outcome, found = self.outcome, self.reasons
        counts = outcome.counts
        # A second Ctrl-C loses what is in flight.
        unheard = 0 if self.stop.requested else counts.lost
        if master.recorder.error:
            found[ExitStatus.FAILED] = str(master.recorder.error)
        elif outcome.ended == "failed":
            found[ExitStatus.FAILED] = outcome.reason
        elif most_failed(counts.done, bad := counts.failed + unheard):
            found[ExitStatus.FAILED] = (
                f"{bad:,} of {plural(counts.done + bad, 'operation')} failed"
                + (" or were lost" if unheard else "")
                + (f"; the first error: {outcome.example}" if counts.failed else "")
            )
        if counts.corrupt:
            found[ExitStatus.CORRUPTION] = (
                f"{plural(counts.corrupt, 'operation')} found corrupt content"
            )
        if self._watch and self._watch.missed:
            found[ExitStatus.THRESHOLD_MISSED] = f"ended early: {self._watch.missed}"
        if self.stop.requested:
            found[ExitStatus.INTERRUPTED] = self.stop.reason
        if master.workers_lost:
            lost = ", ".join(master.workers_lost)
            found[ExitStatus.WORKERS_LOST] = f"workers lost before the run ended: {lost}"
        elif outcome.short_of_users:
            found[ExitStatus.WORKERS_LOST] = "the workers ran fewer users than requested"


def settings_of(store: StorageSettings, scenario: Scenario) -> StorageSettings:
    """The settings of a store, with what a scenario says."""
    flat = scenario.key_names == "flat"  # which every reader of a stat file knows
    return replace(
        store,
        **{key: getattr(scenario, key) for key in StorageKeys.__struct_fields__},
        sizes=scenario.sizes,
        placement=scenario.policy,
        delete_after_s=scenario.delete_after,
        bandwidth=scenario.bandwidth or 0,
        headers=scenario.header_lines(),
        initial_headers=scenario.initial_headers(),
        knows_versions=scenario.uses_versions,
        mix=scenario.mix,
        names={} if flat else {"kind": "run", "key_names": scenario.key_names},
    )


def step_path(path: str | None, name: str) -> str | None:
    """The stat file of one step: ``x.4KBput1.stat.gz`` for ``x.stat.gz``."""
    if path is None:
        return None
    stem = path.removesuffix(".stat.gz")
    return f"{stem}.{name}.stat.gz"
