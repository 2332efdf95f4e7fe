"""``replay``: sends the requests of access logs again, at their own times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from random import Random

from msgspec import Struct

from ssbench.commands.replay.formats import UNKNOWN
from ssbench.commands.replay.requests import RequestLog, Requests
from ssbench.commands.replay.workload import PreparedObjects, ReplayPlan, ReplayWorkload
from ssbench.core.errors import UsageError
from ssbench.core.live import Observer
from ssbench.core.model import SECOND_NS, SizeClass
from ssbench.core.operations import row_of
from ssbench.core.scenario.fields import container_option, profile
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.units import MAX_RATE
from ssbench.core.workload.pacing import LOOKAHEAD_NS
from ssbench.runner import check_thresholds, judge, open_session
from ssbench.runner.config import RunConfig, RunPlan
from ssbench.runner.single_run import Run, RunResult
from ssbench.runner.stop import Stop

#: Of a burst, no more jobs are sent ahead than this rate needs: the rest would be late anyway.
_MOST_PER_S = 100_000
_LATEST_NS = float(1 << 62)


class ReplayConfig(Struct, frozen=True, kw_only=True):
    """A replay of requests.

    :param speed: by which times are divided.
    :param container_count: None: as many as the log has, up to HASHED_CONTAINERS.
    :param run: its scenario, and overrides of it, are ignored.
    :raises UsageError: a name that no container can have.
    """

    speed: float = 1.0
    users: int = 64
    container_base: str = "ssbench_replay"
    container_count: int | None = None
    policy: str | None = None
    seed: int = 0
    run: RunConfig

    def __post_init__(self) -> None:
        container_option("--container-base", self.container_base)


class Replay:
    """Requests of a log, ready to be sent.

    :param log: is empty afterwards.
    """

    def __init__(self, config: ReplayConfig, log: RequestLog) -> None:
        self.config = config
        self.too_large = 0  #: requests that are left out: the store does not take such objects
        containers = config.container_count or log.container_count
        requests = log.arrange()
        if not len(requests):
            reasons = ", ".join(f"{why} ({n:,})" for why, n in log.left_out.items())
            raise UsageError(f"the log has no request that can be sent again: {reasons}")
        self._seconds = requests.seconds / config.speed
        due_ns = requests.at_ns  # in place: logs have millions of lines
        due_ns -= due_ns[0]
        due_ns[:] = (due_ns / config.speed).clip(max=_LATEST_NS)
        self._build(requests, containers)

    def _build(self, requests: Requests, containers: int) -> None:
        config, sizes = self.config, requests.sizes
        size_class = SizeClass(
            "object", int(sizes.min()), int(sizes.max()),
            profile({row: float(count) for row, count in requests.counts.items()}),
            len(requests.objects),
        )  # fmt: skip
        self._requests = requests
        self.scenario = Scenario(
            name=f"replay at speed {config.speed:g}",
            sizes=(size_class,),
            user_count=config.users,
            operation_count=len(requests),
            rate=min(len(requests) / self._seconds, MAX_RATE),
            arrivals="replayed",
            container_base=config.container_base,
            container_count=containers,
            policy=config.policy,
            seed=config.seed,
            parameters=_parameters(requests),
            source="replay",
        )
        self.plan = _plan(requests, containers)
        self.workload = ReplayWorkload(self.plan, Random(config.seed))  # nosec B311 # offsets

    @property
    def prepared_bytes(self) -> int:
        """Bytes of the objects that must exist before."""
        return sum(size for size in self.plan.initial if size != UNKNOWN)

    @property
    def seconds(self) -> float:
        """From the first to the last due time."""
        return self.plan.due_ns[-1] / SECOND_NS

    def run(
        self,
        observers: Sequence[Observer] = (),
        stop: Stop | None = None,
        show: Callable[[], None] = lambda: None,
    ) -> RunResult:
        """Send the requests; returns when the stat file is closed.

        :param show: called once it is known which requests the store takes.
        :raises SsbenchError, KeyboardInterrupt, Aborted: as ``runner.run``.
        """
        config = self.config.run
        check_thresholds(config, self.scenario)
        with ExitStack() as stack:
            session = open_session(config, [self.scenario], stack, observers, stop)
            with session.client() as client:
                self.leave_out_larger(client.call(client.storage.limits).max_object_size)
            show()
            prepared = PreparedObjects(self.plan) if self.plan.prepared else None
            plan = RunPlan({"kind": "hashed"}, workload=self.workload, prepared=prepared)
            result = Run(session, self.scenario, config.stats_file, plan).execute()
        judge(config, result)
        return result

    def leave_out_larger(self, most: int | None) -> None:
        """Leave out the requests for contents of more bytes than this; None: there is no limit.

        :raises UsageError: no request is left.
        """
        if most is None:
            return
        before = self._requests
        requests = before.without_larger(most)
        self.too_large = len(before) - len(requests)
        if not len(requests):
            raise UsageError(
                f"the log has no request that can be sent again: all objects have more than the"
                f" {most} bytes that this store takes in one object"
            )
        if self.too_large:
            self._build(requests, self.scenario.container_count)


def _parameters(requests: Requests) -> dict[str, int | str]:
    """Those of the requests' operations; of a number of bytes the average of the log."""
    return {
        each.key: (each.is_size and requests.mean_moved(operation)) or each.default
        for operation in requests.counts
        for each in row_of(operation).parameters
    }


def _plan(requests: Requests, containers: int) -> ReplayPlan:
    """:param requests: their times are due times."""
    most = requests.most_within(LOOKAHEAD_NS)
    return ReplayPlan(
        # Not copied, and read as Python's numbers.
        due_ns=requests.at_ns.data,
        operations=requests.operations.data,
        slots=requests.slots.data,
        sizes=requests.sizes.data,
        lengths=requests.moved.data,
        objects=requests.objects.data,
        initial=requests.initial.data,
        prepared=int((requests.initial != UNKNOWN).sum()),
        containers=containers,
        most_per_s=min(most * SECOND_NS / LOOKAHEAD_NS, _MOST_PER_S),
    )
