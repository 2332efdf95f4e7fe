"""One run, step by step: from a scenario to a stat file, and a report of it."""

from __future__ import annotations

import secrets
import sys
import time
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

from ssbench import __version__, statfile
from ssbench.cli import threshold_status
from ssbench.cli.session import Session
from ssbench.core.errors import ExitStatus, StatFileError, UsageError, gravest, most_failed
from ssbench.core.model import Phase
from ssbench.core.naming import RUN_ID_BYTES
from ssbench.core.operations import row_of
from ssbench.core.records import RunFooter
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.stats.auto_stop import SteadyStateDetector
from ssbench.core.text import plural
from ssbench.core.workload.bench import bench_jobs
from ssbench.core.workload.workload import CleanupWorkload, InitialWorkload, initial_jobs
from ssbench.master.phases import PhaseOutcome
from ssbench.statfile import StatFileWriter

if TYPE_CHECKING:
    from ssbench.cli.stores import Store
    from ssbench.core.settings import StorageSettings
    from ssbench.master.master import Master

#: Users that make or delete objects around a run, unless the run itself has more.
MAX_SETUP_USERS = 64


class Run:
    """One run, step by step.

    :param path: of the stat file; None: one that tells of the scenario.
    """

    def __init__(self, session: Session, scenario: Scenario, path: str | None = None) -> None:
        self.session = session
        self.options = session.options
        self.scenario = scenario
        self.run_id = secrets.token_hex(RUN_ID_BYTES)
        self.interrupts = session.interrupts
        self.progress = session.progress
        self.say, self.warn = session.say, session.warn
        self.skipped: Counter[int] = Counter()
        self.reasons: dict[ExitStatus, str] = {}  #: exit statuses that apply, and why
        self.path = path or str(
            statfile.default_path(
                scenario.name, scenario.user_count, scenario.operation_count,
                scenario.run_seconds, datetime.now(),
            )
        )  # fmt: skip
        self._writer: StatFileWriter | None = None

    # The steps ----------------------------------------------------------------------------

    def execute(self) -> ExitStatus:
        """Everything up to the end of the stat file, which is closed.

        :raises SsbenchError: for what ends it before there are results.
        """
        self.session.warnings.clear()
        try:
            with StatFileWriter.create(
                self.path, overwrite=self.options.force, hold=True
            ) as writer:
                self._writer = writer
                if self.options.thresholds and not writer.readable:
                    raise UsageError(
                        f"--threshold needs results to judge by: {self.path} keeps none"
                    )
                return self._execute(writer)
        except KeyboardInterrupt:
            self.say_where()
            self.say_how_to_clean_up()
            raise

    def _execute(self, writer: StatFileWriter) -> ExitStatus:
        session = self.session
        self.say(f"ssbench {__version__}, run {self.run_id}, seed {session.seed}")
        store = session.store()
        # Loaded while the workers start, which takes them as long.
        from ssbench.cli.run_setup import check_store, header_of, limits_of, settings_of

        settings = settings_of(self.options, self.scenario, store, self.run_id)
        verify = self.options.verify
        self.interrupts.check()
        writer.write(
            header_of(self.scenario, self.run_id, session.seed, settings.driver, verify=verify)
        )
        master = session.master(settings, limits_of(self.options, self.scenario, settings), writer)
        self.say(f'Starting scenario run for "{self.scenario.name}"')
        if session.has_containers:
            writer.release()  # earlier runs of the series changed the store
        try:
            # While workers start; then they are waited for, so that nothing is made without them.
            check_store(session, self.scenario, settings)
            self._wait_for_workers(master)
            self._prepare_containers(store, settings, writer)
        except BaseException:
            self._release_workers(master)
            raise
        return self._phases(master, writer)

    def _prepare_containers(
        self, store: Store, settings: StorageSettings, writer: StatFileWriter
    ) -> None:
        """Make the containers. From the first change on there is a stat file, and an interrupted
        run has its report.

        :raises KeyboardInterrupt: where the user ended it before that.
        """
        from ssbench.cli.run_setup import prepare_containers

        if not self.interrupts.received:
            prepare_containers(self.session, self.scenario, store, settings, writer.release)
        if self.interrupts.received and writer.held:
            self.interrupts.end()
        writer.release()  # the initial objects may be next

    def _release_workers(self, master: Master) -> None:
        """Let the workers go, unless another run of a series may need them."""
        if not self.session.is_series:
            master.release_workers()

    def _phases(self, master: Master, writer: StatFileWriter) -> ExitStatus:
        initial = initial_jobs(self.scenario)
        outcome = PhaseOutcome.nothing("interrupted", "interrupted before it began")
        try:
            outcome = self._populate_and_run(master, initial)
            if outcome.ended in ("exhausted", "failed") and not master.recorder.error:
                self.warn(outcome.reason)
            if outcome.counts.corrupt:
                met = plural(outcome.counts.corrupt, "operation")
                self.warn(f"{met} found corrupt content; the exit status will not be 0")
            self._clean_up(master, initial)
        finally:
            self._release_workers(master)
            if not master.recorder.error:  # said already, and nothing more can be written
                self._conclude(master, writer, self._footer(master, outcome, initial))
        return self._status(master, outcome)

    def _wait_for_workers(self, master: Master) -> None:
        """Wait for workers; a later run of a series goes on with those who are left."""
        session = self.session
        if session.has_workers:
            master.wait_for_workers(self.scenario.most_users, 1)
            return
        expected = self.options.expect_workers or self.options.workers
        master.wait_for_workers(session.wanted_users, expected)
        session.has_workers = True

    def _populate_and_run(self, master: Master, initial: InitialWorkload) -> PhaseOutcome:
        if self.interrupts.received:
            return PhaseOutcome.nothing("interrupted", self.interrupts.reason)
        if not self.session.has_objects:
            fault = self._populate(master, initial)
            if fault is not None:
                return fault
        scenario = self.scenario
        bench = bench_jobs(
            scenario, self.session.seed, initial.population, self.options.verify, self.run_id
        )
        self.skipped = bench.skipped
        return master.run_phase(
            Phase.RUN, bench, scenario.most_users, scenario.run_seconds,
            stages=scenario.load, steady_state=self._settling(),
        )  # fmt: skip

    @property
    def _setup_users(self) -> int:
        """Users for what is around the run. One user's step needn't be populated by one."""
        most = self.session.wanted_users
        return max(self.scenario.most_users, min(most, MAX_SETUP_USERS))

    def _settling(self) -> SteadyStateDetector | None:
        stop = self.options.auto_stop
        if stop is None:
            return None
        return SteadyStateDetector(
            window_s=stop.window_s, tolerance=stop.tolerance, warmup_s=self.scenario.warmup
        )

    def _populate(self, master: Master, initial: InitialWorkload) -> PhaseOutcome | None:
        """Upload what isn't there; gives what there is to say instead of a run, None for a run."""
        populated = master.run_phase(Phase.POPULATE, initial, self._setup_users)
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
                f" ({why}); the run continues without them"
            )
        else:
            self.session.has_objects = self.scenario.keeps_initial_objects
        return None

    def _clean_up(self, master: Master, initial: InitialWorkload) -> None:
        """Delete what the run created."""
        cleanup = CleanupWorkload(initial.population)
        if self.options.keep_objects or not cleanup.total:
            return
        outcome = master.run_phase(Phase.CLEANUP, cleanup, self._setup_users)
        if cleanup.left_behind and not self.options.noop:
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
            master.recorder.error = error
            self.warn(str(error))

    def _footer(
        self,
        master: Master,
        outcome: PhaseOutcome,
        initial: InitialWorkload,
    ) -> RunFooter:
        ended, reason = outcome.ended, outcome.reason
        if ended == "complete" and self.interrupts.received:
            ended, reason = "interrupted", f"{self.interrupts.reason} during clean-up"
        return RunFooter(
            ended_at=time.time(),
            ended=ended,
            reason=reason,
            run_seconds=outcome.seconds,
            lost=outcome.counts.lost,
            late=outcome.never_started,
            refused=master.refused,
            skipped={row_of(operation).name: n for operation, n in self.skipped.items()},
            workers_lost=tuple(master.workers_lost),
            warnings=tuple(self.session.warnings),
            # Asked for last: the clean-up may have been cut short by a second Ctrl-C.
            left_behind=initial.population.left_behind,
            left_unknown=initial.population.left_unknown,
            sent=outcome.counts.sent - outcome.counts.withdrawn,
        )

    def _status(self, master: Master, outcome: PhaseOutcome) -> ExitStatus:
        """The gravest; ``reasons`` has why each applies."""
        counts, found = outcome.counts, self.reasons
        if master.recorder.error:
            found[ExitStatus.FAILED] = str(master.recorder.error)
        elif outcome.ended == "failed":
            found[ExitStatus.FAILED] = outcome.reason
        elif most_failed(counts.done, counts.failed):
            found[ExitStatus.FAILED] = (
                f"{counts.failed:,} of {plural(counts.done + counts.failed, 'operation')} failed;"
                f" the first error: {outcome.example}"
            )
        if counts.corrupt:
            found[ExitStatus.CORRUPTION] = (
                f"{plural(counts.corrupt, 'operation')} found corrupt content"
            )
        if self.interrupts.received:
            found[ExitStatus.INTERRUPTED] = self.interrupts.reason
        if master.workers_lost:
            lost = ", ".join(master.workers_lost)
            found[ExitStatus.WORKERS_LOST] = f"workers lost before the run ended: {lost}"
        elif outcome.short_of_users:
            found[ExitStatus.WORKERS_LOST] = "the workers ran fewer users than requested"
        return gravest([*found])

    # Afterwards ---------------------------------------------------------------------------

    def report(self) -> None:
        """Print the report, unless -R, and where the results are.

        Thresholds that were missed join ``reasons``.
        """
        if self._writer and not self._writer.readable:
            self.say(f"No report: the results went to {self.path}")
        else:
            self._print_report()
            self.say_where()

    def _print_report(self) -> None:
        options = self.options
        if options.no_default_report and not options.thresholds:
            return
        from ssbench.cli.reporting import read_stats, write_report

        stats = read_stats(self.path)
        if options.no_default_report:
            from ssbench import report

            for line in report.threshold_lines(report.of_run(stats, thresholds=options.thresholds)):
                self.progress.message(line)
        else:
            write_report(stats, options.format, options.percentiles, thresholds=options.thresholds)
        self.reasons.update(threshold_status.reasons(stats, options.thresholds))

    def say_where(self) -> None:
        """Where the results are, and how to look at them again."""
        if self._has_results() and not self.options.quiet:
            print(
                f"INFO:Scenario run results saved to {self.path}\n"
                "INFO:You may generate a report with:\n"
                f"  {sys.argv[0]} report-scenario -s {self.path}",
                file=sys.stderr,
            )

    def say_how_to_clean_up(self) -> None:
        """Where the run was left in the midst of it: how to be rid of what it created."""
        if self._has_results() and not (self.options.quiet or self.options.noop):
            print(
                "Objects of this run may remain in the store; to delete them:\n"
                f"  {sys.argv[0]} cleanup-containers --resume-cleanup {self.path}",
                file=sys.stderr,
            )

    def _has_results(self) -> bool:
        return self._writer is not None and self._writer.readable and self._writer.blocks > 0
