"""What to run, where and how: the typed input of the runner. No secret is in a repr."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from ssbench.core.errors import UsageError
from ssbench.host.process import usable_cores

if TYPE_CHECKING:
    from ssbench.core.hostlist import SshHost
    from ssbench.core.model import Group
    from ssbench.core.stats.thresholds import Threshold
    from ssbench.core.workload.workload import EnsureWorkload, Workload
    from ssbench.runner.scenarios import ScenarioText
    from ssbench.storage.options import StoreOptions


#: Starts a worker process on this host; its options are appended. Not by ``-m``, which would import
#: another ssbench that the current directory may hold.
WORKER_COMMAND = (
    sys.executable, "-c", "import sys; sys.path[:] = filter(None, sys.path);"
    " from ssbench.cli.worker import main; sys.exit(main())",
)  # fmt: skip


class TransportConfig(Struct, frozen=True):
    """Address, ports and key of a master's transport.

    :param address: the interface to bind; None: all interfaces with a key, loopback without one.
    :param work_port, results_port, control_port: 0: any free port.
    :param key_file: path; None: no encryption.
    """

    address: str | None = None
    work_port: int = 13579
    results_port: int = 13580
    control_port: int = 13581
    key_file: str | None = None


FREE_PORTS = TransportConfig(None, 0, 0, 0)


class AutoStop(Struct, frozen=True):
    """When the rate of operations is steady enough to end a run early."""

    window_s: int = 15
    tolerance: float = 0.075  #: as a fraction


class RunConfig(Struct, frozen=True, kw_only=True):
    """A run, or each run of a series. None means "not given" unless stated otherwise.

    :raises UsageError: values that exclude each other.
    """

    scenario: ScenarioText
    overrides: Mapping[str, object] = {}  #: keys of the scenario
    places: Mapping[str, str] = {}  #: as of Scenario.resolve
    store: StoreOptions | None  #: None: a temporary Swift on this host
    is_noop: bool = False  #: the store moves no data
    keep_objects: bool = False
    use_existing: bool = False
    existing: str | None = None  #: CONTAINER[/PREFIX] whose objects are read; None: own objects
    compressible: bool = False
    verify: bool = False
    operation_timeout_s: float | None = None  #: None: no limit
    drain_timeout_s: float = 30.0
    max_consecutive_errors: int | None = None  #: None: no limit
    retries: int = 10
    transport: TransportConfig = field(default_factory=TransportConfig)
    worker_command: tuple[str, ...] = WORKER_COMMAND
    workers: int | None = None
    ssh_workers: tuple[SshHost, ...] | None = None  #: hosts to start workers on
    ssh_command: tuple[str, ...] = ("ssh",)
    #: For the shell of those hosts; None: ssbench-worker, from its PATH.
    ssh_worker_command: str | None = None
    ssh_master: str | None = None  #: our address as they see it; None: they are asked
    expect_workers: int | None = None
    source_addresses: Sequence[str] | None = None  #: of this host, for its workers
    worker_paths: Sequence[str] = ()  #: of real files that workers read, absolute
    worker_wait_s: float = 30.0
    #: If no number of workers is given, and none is there: start ``default_workers`` here.
    starts_if_none: bool = True
    fewer_workers_ok: bool = False
    worker_timeout_s: float = 10.0
    batch_size: int | None = None  #: None: what is due, up to a limit
    stats_file: str | None = None  #: None: a new file in results_dir
    results_dir: str | None = None  #: None: /tmp/ssbench-results
    force: bool = False  #: overwrite the stat file
    percentiles: tuple[float, ...] = (95.0,)
    thresholds: tuple[Threshold, ...] = ()
    abort_window_s: int | None = None  #: None: thresholds are judged when the run has ended
    auto_stop: AutoStop | None = None  #: None: run as long as the scenario says
    #: Sample where master and workers spend CPU time; the master's only in the main thread.
    profile: bool = False
    in_detail: bool = False  #: read statistics with their breakdown, which a page shows

    def __post_init__(self) -> None:
        if self.expect_workers and self.expect_workers < self.least_started:
            options = [name for name, given in (("--workers", self.workers),
                       ("--ssh-workers", self.ssh_workers)) if given]  # fmt: skip
            raise UsageError(
                f"--expect-workers {self.expect_workers} is fewer than the {self.least_started} of "
                f"{' and '.join(options)}, which count among them"
            )
        if self.abort_window_s:
            from ssbench.core.stats.auto_stop import WATCHED, can_watch  # loads slowly

            if not any(map(can_watch, self.thresholds)):
                raise UsageError(
                    f"--abort-on-threshold needs a --threshold that it can watch: {WATCHED}"
                )
        for excluded, why in (
            (self.ssh_workers and self.store is None,
             "--ssh-workers: other hosts can't reach the store of --embedded-swift"),
            (self.ssh_master and not self.ssh_workers,
             "--ssh-master is for the workers of --ssh-workers: give both"),
            (self.source_addresses and not self.workers,
             "--source-address is for the workers of --workers; give it to each ssbench-worker"),
            (self.existing and self.is_noop,
             "--existing has nothing to read with --noop: leave out one of them"),
            (self.existing and self.verify,
             "--existing with --verify: what objects of others contain is not known"),
            (self.stats_file == "-", "-s -: standard output is for the report; name a file"),
            (self.verify and self.is_noop,
             "--verify has nothing to check with --noop: leave out one of them"),
            (self.is_noop and any(each.metric == "throughput" for each in self.thresholds),
             "--threshold: with --noop nothing is moved, so there is no throughput"),
        ):  # fmt: skip
            if excluded:
                raise UsageError(why)

    @property
    def has_remote_workers(self) -> bool:
        """Whether workers of other hosts may join, or such as were started by hand."""
        transport = self.transport
        return not self.workers or bool(
            self.ssh_workers or transport.key_file or transport.address or self.expects_others
        )

    @property
    def expects_others(self) -> bool:
        """Whether the run waits for workers that it does not start."""
        return (self.expect_workers or 0) > self.least_started

    @property
    def looks_for_workers(self) -> bool:
        """Whether the run uses the workers that are there, and starts some if there are none."""
        return self.starts_if_none and not (self.least_started or self.expect_workers)

    @property
    def bound(self) -> TransportConfig:
        """Where the master listens: if only workers that it starts here can join, any free ports
        instead of the default ones."""
        is_default = self.transport == TransportConfig()
        return FREE_PORTS if is_default and not self.has_remote_workers else self.transport

    @property
    def least_started(self) -> int:
        """Workers that the run starts itself; at least, as hosts may start one for each core."""
        return (self.workers or 0) + sum(host.processes or 1 for host in self.ssh_workers or ())

    def users_each(self, users: int, groups: Sequence[Group] = ()) -> int:
        """Users that each worker which the run starts offers to run.

        :param users: of all workers.
        :param groups: of users: no more workers take part than the smallest has users.
        """
        return -(-users // min([self.least_started, *(group.users for group in groups)]))


def default_workers(users: int) -> int:
    """Workers of this host where the user gave no number: a core is left to the master."""
    return max(1, min(usable_cores() - 1, users))


class SessionSettings(Struct, frozen=True, kw_only=True):
    """What the runs of a session have in common besides their configuration."""

    most_users: int  #: of any run
    least_users: int | None = None  #: that this host's workers must be able to run; None: all
    #: Users that the workers must be able to run before the first run starts; None: all.
    wanted_users: int | None = None
    groups: Sequence[Group] = ()  #: of users
    seed: int | None = None  #: None: one is drawn, for all runs
    is_series: bool = False  #: there may be several runs: workers are released with the stack


class RunPlan(Struct, frozen=True):
    """What a run does around its operations. The default: all that a scenario needs.

    :param names: StorageSettings.names; {}: by the run's id.
    :param contents: StorageSettings.contents; {}: made-up bytes.
    :param uploads: containers are made, and the scenario's sizes are those of uploads.
    :param workload: of the run phase; None: the scenario's operations on its initial objects and
        those that the run creates.
    :param prepared: objects that must exist before ``workload``; None: no populate phase.
    """

    names: Mapping[str, Any] = {}
    uploads: bool = True
    workload: Workload | None = None
    contents: Mapping[str, Any] = {}
    prepared: EnsureWorkload | None = None
