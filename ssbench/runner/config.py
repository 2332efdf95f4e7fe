"""What to run, where and how: the typed input of the runner, and scenarios by name.

Scenarios are files, or the canned ones that ship with ssbench. No secret is in a repr.
"""

import os
import stat
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

import ssbench
from ssbench.core import option as types
from ssbench.core import units
from ssbench.core.errors import UsageError
from ssbench.core.option import EXECUTION, LOAD, RESULTS, SEARCH, WORKERS, of_field
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.settings import MAX_WORKERS, Limits, TransportConfig
from ssbench.core.text import close_matches, printable
from ssbench.host.files import check_found, read_bytes, read_text
from ssbench.host.process import usable_cores
from ssbench.storage.registry import row_of

if TYPE_CHECKING:
    from importlib.abc import Traversable

    from ssbench.core.hostlist import SshHost
    from ssbench.core.model import Group
    from ssbench.core.stats.thresholds import Threshold
    from ssbench.core.workload.division import Division
    from ssbench.core.workload.workload import EnsureWorkload, Workload
    from ssbench.storage.options import StoreOptions


#: Starts a worker process on this host; its options are appended. Not by ``-m``, which would import
#: another ssbench that the current directory may hold.
WORKER_COMMAND = (
    sys.executable, "-c", "import sys; sys.path[:] = filter(None, sys.path);"
    " from ssbench.cli.worker import main; sys.exit(main())",
)  # fmt: skip


def threshold(text: str) -> "Threshold":
    """A condition, such as ``p99 < 50ms``."""
    from ssbench.core.operations import OPERATIONS  # loads slowly, as few runs need it
    from ssbench.core.stats.thresholds import Threshold

    return Threshold.parse(text, "", OPERATIONS)


def new_stats_file(text: str) -> str:
    """The stat file's path with ``.gz`` added if it lacks it, as in ssbench 0.3.9.

    Existing paths that are not regular files (devices, pipes, links, folders) stay unchanged, and
    so does ``-``, which is rejected later.
    """
    if text == "-" or text.lower().endswith(".gz") or not os.path.basename(text):
        return text
    try:
        regular = stat.S_ISREG(os.lstat(text).st_mode)
    except (OSError, ValueError):  # no such file
        regular = True
    return f"{text}.gz" if regular else text


def existing_place(text: str) -> str:
    """``CONTAINER`` or ``CONTAINER/PREFIX``."""
    if not text.partition("/")[0]:
        raise UsageError(f"{text!r}: give a container, or CONTAINER/PREFIX")
    return text


def ssh_hosts(text: str) -> "tuple[SshHost, ...]":
    """``bench-{01..20}:4``, or ``@hosts.txt`` for such words in a file."""
    from ssbench.core.hostlist import parse_hosts  # lazy: few runs need it

    if not text.startswith("@"):
        return parse_hosts(text)
    words = read_text(text[1:])
    try:
        return parse_hosts(words)
    except UsageError as error:
        raise UsageError(f"{text[1:]}: {error}") from None


def command_words(text: str) -> tuple[str, ...]:
    """A command with its first options, with a shell's quotes."""
    import shlex

    try:
        words = tuple(shlex.split(text))
    except ValueError:
        words = ()
    if not words:
        raise UsageError(f"{text!r}: give a command, as in 'ssh -i ~/.ssh/bench'")
    return words


def _auto(text: str) -> int:
    if text != "auto":
        raise ValueError(text)
    return max(1, usable_cores() - 1)


#: A core is left to the master.
WORKER_COUNT = replace(units.count, parse=_auto)
FREE_PORTS = TransportConfig(None, 0, 0, 0)


class RunConfig(Limits, frozen=True, kw_only=True):
    """A run, or each run of a series. None means "not given" unless stated otherwise.

    A field with an option in its annotation is set by it; commands take these options from here.

    :raises UsageError: values that exclude each other.
    """

    # fmt: off
    scenario: "ScenarioText"
    overrides: Mapping[str, Any] = {}  #: keys of the scenario -> their values
    #: Key of the scenario -> where it was given, if not by the key's own option.
    places: Mapping[str, str] = {}
    store: "StoreOptions | None"  #: None: a temporary Swift on this host
    keep_objects: Annotated[bool,
        of_field("-k --keep-objects", bool, EXECUTION,
            "do not delete what the run created")] = False
    use_existing: Annotated[bool,
        of_field("--use-existing", bool, EXECUTION,
            "also use containers that hold objects and are not marked as ssbench's, such as "
            "those that 0.3.9 created for a storage policy",
            command_line_only=True)] = False
    existing: Annotated[str | None,
        of_field("--existing", existing_place, EXECUTION,
            "read objects that are there already, in this container and with names that begin "
            "with PREFIX; the run creates, changes and deletes nothing",
            metavar="CONTAINER[/PREFIX]")] = None
    compressible: Annotated[bool,
        of_field("--compressible", bool, EXECUTION,
            "send objects of one repeated letter, as ssbench 0.3.9 did, instead of random "
            "bytes")] = False
    verify: Annotated[bool,
        of_field("--verify", bool, EXECUTION,
            "verify content and length of every READ and RANGE_READ, and compare ETags with "
            "MD5")] = False
    #: The master's CPU time only in the main thread.
    profile: Annotated[bool,
        of_field("--profile", bool, EXECUTION,
            "sample where master and workers spend CPU time in the run, and report it")] = False
    retries: Annotated[int,
        of_field("--retries", units.count_or_none, EXECUTION,
            "number of times to repeat a failed operation", metavar="COUNT")] = 10
    transport: TransportConfig = field(default_factory=TransportConfig)
    worker_command: tuple[str, ...] = WORKER_COMMAND
    workers: Annotated[int | None,
        of_field("--workers", WORKER_COUNT, WORKERS,
            "number of workers to start on this host, for this run; auto: one for each CPU core "
            "but one",
            brief="worker processes to start on this host")] = None
    ssh_workers: Annotated["tuple[SshHost, ...] | None",
        of_field("--ssh-workers", ssh_hosts, WORKERS,
            "hosts to start workers on over ssh, for this run, such as 'bench-{01..20}:4' for "
            "four on each of 20, or @FILE for a file with such words; without :COUNT, one for "
            "each core", metavar="HOSTS")] = None
    ssh_command: Annotated[tuple[str, ...],
        of_field("--ssh-command", command_words, WORKERS,
            "with --ssh-workers: the ssh client and its options",
            default="ssh", metavar="COMMAND", needs="ssh_workers")] = ("ssh",)
    #: For the shell of those hosts.
    ssh_worker_command: Annotated[str | None,
        of_field("--ssh-worker-command", str, WORKERS,
            "with --ssh-workers: ssbench-worker on those hosts, such as "
            "/opt/ssbench/bin/ssbench-worker [default: that of the PATH there]",
            metavar="COMMAND", needs="ssh_workers")] = None
    ssh_master: Annotated[str | None,
        of_field("--ssh-master", str, WORKERS,
            "with --ssh-workers: name or address at which those hosts reach this one [default: "
            "where they see ssh connect from]", metavar="HOST", needs="ssh_workers")] = None
    expect_workers: Annotated[int | None,
        of_field("--expect-workers", units.count, WORKERS,
            "number of workers to wait for, including those of --workers and --ssh-workers",
            brief="workers to wait for, of all hosts")] = None
    source_addresses: Annotated[Sequence[str] | None,
        of_field("--source-address", types.ip_address, WORKERS,
            "IP address of this host from which the workers of --workers connect to the store; "
            "several are used in turn; may be repeated",
            metavar="ADDRESS", repeat=True)] = None
    worker_paths: Sequence[str] = ()  #: of real files that workers read, absolute
    #: If no number of workers is given, and none is there: start ``default_workers`` here.
    starts_if_none: bool = True
    stats_file: Annotated[str | None,
        of_field("-s --stats-file", new_stats_file, RESULTS,
            "where to store the results; .gz is added to a name without it [default: "
            "/tmp/ssbench-results/NAME.u<users>.o<ops>.r<seconds>.<time>.stat.gz]",
            metavar="STATS_FILE", brief="a file for the results", file="x")] = None
    results_dir: Annotated[str | None,
        of_field("--results-dir", str, RESULTS,
            "folder for stat files without -s [default: /tmp/ssbench-results]",
            metavar="DIR", file="d")] = None
    force: Annotated[bool,
        of_field("--force", bool, RESULTS,
            "overwrite the stat file of -s, if it exists", command_line_only=True,
            needs="stats_file")] = False
    percentiles: Annotated[Sequence[float],
        of_field("--pctile", units.percentile, RESULTS,
            "latency percentile to report, such as 99.9; may be repeated [default: 95]",
            metavar="PERCENTILE", repeat=True)] = (95.0,)
    thresholds: Annotated["tuple[Threshold, ...]",
        of_field("--threshold", threshold, RESULTS,
            "condition that the run must meet, such as 'p99(READ) < 50ms', 'errors < 0.1%' or "
            "'rate > 1000/s'; exit status 3 if one is missed; may be repeated",
            metavar="CONDITION", repeat=True, brief="fail unless this holds, as in 'p99 < 50ms'")
        ] = ()
    abort_window_s: Annotated[int | None,
        of_field("--abort-on-threshold", units.whole_seconds(1), RESULTS,
            "end the run, with exit status 3, when a --threshold on errors, rate or a "
            "percentile is missed over this many whole seconds, or can no longer be met "
            "[default: thresholds are judged at the end]", metavar="SECONDS")] = None
    auto_stop: Annotated[bool,
        of_field("--auto-stop", bool, LOAD,
            "end the run early, once the rate of operations is steady")] = False
    auto_stop_window_s: Annotated[int,
        of_field("--auto-stop-window", units.whole_seconds(1), LOAD,
            "with --auto-stop: whole seconds in each half of the run, at least",
            metavar="SECONDS", needs="auto_stop")] = 15
    auto_stop_percent: Annotated[float,
        of_field("--auto-stop-tolerance", units.tolerance, LOAD,
            "with --auto-stop: difference between the halves' rates, in percent, that counts as "
            "steady", needs="auto_stop")] = 7.5
    # fmt: on

    def __post_init__(self) -> None:
        if self.expect_workers and self.expect_workers < self.least_started:
            options = [name for name, given in (("--workers", self.workers),
                       ("--ssh-workers", self.ssh_workers)) if given]  # fmt: skip
            raise UsageError(
                f"--expect-workers {self.expect_workers} is fewer than the {self.least_started} of "
                f"{' and '.join(options)}, which count among them"
            )
        workers = max(self.expect_workers or 0, self.least_started)
        for excluded, why in (
            (workers > MAX_WORKERS,
             f"{workers:,} workers are more than a master can have ({MAX_WORKERS:,}); each runs"
             " many users"),
            (not self.percentiles, "percentiles: the list is empty; give at least one"),
            (self.ssh_workers and self.store is None,
             "--ssh-workers: other hosts can't reach the store of --embedded-swift"),
            (self.source_addresses and not self.workers,
             "--source-address is for the workers of --workers; give it to each ssbench-worker"),
            (self.existing and self.is_noop,
             "--existing has nothing to read with --noop: leave out one of them"),
            (self.existing and self.division,
             "--existing reads objects of one user: leave out --identities"),
            (self.existing and self.verify,
             "--existing with --verify: only the content of objects that ssbench wrote is known"),
            (self.stats_file == "-", "-s -: standard output is for the report; name a file"),
            (self.verify and self.is_noop,
             "--verify has nothing to check with --noop: leave out one of them"),
            (any(each.metric == "throughput" for each in self.thresholds) and self.is_noop,
             "--threshold: with --noop nothing is moved, so there is no throughput"),
        ):  # fmt: skip
            if excluded:
                raise UsageError(why)

    @property
    def is_noop(self) -> bool:
        """Whether the store moves no data."""
        return self.store is not None and not row_of(self.store.driver).is_real

    @property
    def division(self) -> "Division | None":
        """Of the load, among the identities of the store; None: there is one."""
        return self.store.division if self.store else None

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

    def users_each(self, users: int, groups: "Sequence[Group]" = ()) -> int:
        """Users that each worker which the run starts offers to run.

        :param users: of all workers.
        :param groups: of users: no more workers take part than the smallest has users.
        """
        return -(-users // min([self.least_started, *(group.users for group in groups)]))


def default_workers(users: int) -> int:
    """Workers of this host where the user gave no number."""
    return min(_auto("auto"), users)


def percent(text: str) -> float:
    """``5``, as a fraction."""
    return units.tolerance.of_text(text) / 100


#: What a series of runs can be over -> the scenario's key.
OVER = {"users": "user_count", "rate": "rate"}


class SearchConfig(Struct, frozen=True):
    """How to search for the highest load that meets the thresholds, which are the RunConfig's."""

    # fmt: off
    over: Annotated[str,
        of_field("--over", str, SEARCH, "what to double, then bisect", choices=tuple(OVER),
            brief="what to increase")] = "users"
    first: Annotated[float | None,
        of_field("--start", units.rate, SEARCH,
            "first load to try [default: 1 user, or 10 operations/s]", metavar="LOAD")] = None
    most: float | None = None  #: highest load to try; None: as the workers allow
    #: As a fraction.
    precision: Annotated[float,
        of_field("--precision", percent, SEARCH,
            "stop when the highest load that met the SLO and the lowest that missed it differ by "
            "at most this", default="5", metavar="PERCENT")] = 0.05
    confirm: Annotated[int,
        of_field("--confirm", units.whole(0, 10), SEARCH,
            "how often to run these two loads again; if runs disagree, the majority counts, and "
            "the search continues", metavar="TIMES")] = 1
    # fmt: on


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
    workload: "Workload | None" = None
    contents: Mapping[str, Any] = {}
    prepared: "EnsureWorkload | None" = None


#: In the order that list-scenarios shows; a test compares it with the files.
CANNED = (
    "very_small",
    "small",
    "medium",
    "large",
    "huge",
    "zero_byte",
    "put_only",
    "get_only",
    "delete_only",
    "all_operations",
    "large_parts",
    "write_read_delete",
    "training_epochs",
    "training_shards",
    "training_checkpoints",
    "webdav_load",
    "webdav_volume",
    "webdav_stress",
)
SUFFIX = ".scenario"
#: Names of such scenarios in ssbench 0.3.9 and its documents -> ours.
OLD_NAMES = {
    "very_small_test": "very_small",
    "very_small_test_scenario": "very_small",
    "demo_test": "very_small",
    **{f"{size}_test": size for size in ("small", "medium", "large", "huge")},
    **{f"{size}_test_scenario": size for size in ("small", "medium", "large", "huge")},
    "zero_byte_upload": "zero_byte",
}
PACKAGE = "ssbench.scenarios"


class ScenarioText(NamedTuple):
    """A scenario that was not parsed yet."""

    text: bytes
    source: str  #: what error messages call it
    note: str = ""  #: something that the user should know of it


def find_scenario(argument: str) -> ScenarioText:
    """The text of a scenario file, or of a canned scenario.

    Files come first. A canned scenario is named with or without ``.scenario`` and ``scenarios/``
    around its name, or by its name in ssbench 0.3.9. Of a file, at most a byte more is read than
    a scenario may have.

    :raises UsageError: there is neither, or the file can't be read; or it has the name of a canned
        one, and another user has placed it in a folder for everybody.
    """
    text = _read_file(argument)
    old = name = argument.removeprefix("./").removeprefix("scenarios/").removesuffix(SUFFIX)
    if text is not None:
        if name in CANNED or name.lower() in OLD_NAMES:  # the user may mean the canned one
            check_found(argument)
        return ScenarioText(text, argument)
    note = ""
    if name.lower() in OLD_NAMES:
        name = OLD_NAMES[name.lower()]
        note = (
            f"{old}: a name of ssbench 0.3.9; this runs the canned scenario {name}, whose sizes "
            "and counts differ from the old one's"
        )
    if name in CANNED:
        return ScenarioText(_canned_bytes(name), f"{name}{SUFFIX}", note)
    if os.path.isdir(argument):
        raise UsageError(f"{printable(argument)}: a folder; give a scenario file")
    near = close_matches(name, [*CANNED, *OLD_NAMES])
    folder, wanted = os.path.split(argument)
    with suppress(OSError, ValueError):
        with os.scandir(folder or ".") as entries:
            files = [entry.name for entry in entries if entry.is_file()]
        files = close_matches(wanted, files)
        near = [os.path.join(folder, each) for each in files] or near
    meant = f"did you mean {printable(OLD_NAMES.get(near[0], near[0]))}? " if near else ""
    raise UsageError(
        f"{printable(argument) or '(empty)'}: no such file or canned scenario; "
        f"{meant}canned scenarios: {', '.join(CANNED)}"
    )


def list_canned() -> list[tuple[str, Scenario]]:
    """Name and scenario of each canned one, in the order to show them."""
    return [(name, Scenario.from_json(_canned_bytes(name), name + SUFFIX)) for name in CANNED]


def _read_file(path: str) -> bytes | None:
    """None if there is no such file. A folder "medium" does not hide the canned scenario."""
    return read_bytes(path) if os.path.lexists(path) and not os.path.isdir(path) else None


def _canned_bytes(name: str) -> bytes:
    return _folder().joinpath(name + SUFFIX).read_bytes()


def _folder() -> "Traversable":
    """The scenarios of the installed package, or those of a checkout."""
    from importlib import resources  # loads slowly, and a file needs none

    try:
        return resources.files(PACKAGE)
    except ModuleNotFoundError:
        return Path(ssbench.__file__).resolve().parent.parent / "scenarios"
