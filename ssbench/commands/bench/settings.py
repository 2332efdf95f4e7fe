"""Settings of ``bench``, each with its option; and nectar's command line as one of ``bench``."""

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from ssbench.cli.options import (
    ERRORS,
    HOW,
    OWN_FILE,
    PAGE,
    PROGRESS,
    STORE_OPTIONS,
    THRESHOLD,
    WORKER_COUNTS,
    of_run,
    only,
    without,
)
from ssbench.cli.parser import TRUE, check_values, own_words, parse_flags
from ssbench.core import option as types
from ssbench.core import units
from ssbench.core.errors import UsageError
from ssbench.core.model import Group, Profile, SizeClass
from ssbench.core.naming import has_dot_segment
from ssbench.core.operations import CREATE, DELETE, HEAD, POST, READ, Body, Effect, Operation
from ssbench.core.option import RESULTS, WHAT, Option, of_field, options_of_fields, row
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.scenario.values import container_base, headers, mix
from ssbench.core.text import parse_duration
from ssbench.runner.config import RunConfig, RunPlan

BENCH_PREFIX = "bench-"  #: as in nectar
#: The largest object of any store (S3): the size of objects of unknown size.
_LARGEST = 5 << 40
_CLASS = "bench"  #: name of the size class: sizes follow from it and the object's number


class Method(Struct, frozen=True):
    """A command on numbered objects. What it needs and prints follows from its operations.

    :param operations: each with users of its own.
    """

    name: str  #: behind ``bench``
    operations: tuple[Operation, ...]

    @property
    def is_mixed(self) -> bool:
        """Whether there are several operations."""
        return len(self.operations) > 1

    @property
    def uploads(self) -> bool:
        """Whether it creates objects."""
        return any(row.effect is Effect.CREATES for row in self.operations)

    @property
    def removes(self) -> bool:
        return any(row.effect is Effect.REMOVES for row in self.operations)

    @property
    def reads(self) -> bool:
        """Whether it changes nothing, so that the response's headers are worth a column."""
        return all(row.effect is Effect.NONE for row in self.operations)

    @property
    def receives(self) -> bool:
        """Whether it does nothing but receive contents, which can be verified."""
        return all(row.body is Body.RECEIVED for row in self.operations)

    @property
    def columns(self) -> list[str]:
        """Of its numbers over time: none where there is one operation."""
        return sorted(row.alias or row.name for row in self.operations) if self.is_mixed else []


METHODS = {
    each.name: each
    for each in (
        Method("put", (CREATE,)),
        Method("get", (READ,)),
        Method("head", (HEAD,)),
        Method("post", (POST,)),
        Method("delete", (DELETE,)),
        Method("mixed", (CREATE, POST, READ, HEAD, DELETE)),
    )
}
MIXED = METHODS["mixed"]
#: Those that ``bench suite`` runs twice, in their order.
REPEATED = tuple(METHODS[name] for name in ("put", "get", "delete"))


# fmt: off
_USERS = "-u --user-count --users"
_DELETE_BEHIND = of_field("--delete-behind", units.count_or_none, WHAT,
    "number of objects that exist before the first is deleted, and from then on", metavar="COUNT")
_HEADERS = of_field("--header", types.header, WHAT,
    "send this header with each request; may be repeated", default=None, metavar="'NAME: VALUE'",
    repeat=True)


class BenchConfig(Struct, frozen=True, kw_only=True):
    """One run on numbered objects.

    :param users: of each operation.
    :param run: its scenario is ignored.
    :raises UsageError: values that exclude each other.
    """

    method: Method
    container: Annotated[str,
        of_field("", str, "",
            "the container, with a prefix of objects behind a slash; with --containers N, N "
            "containers named CONTAINER0, CONTAINER1 ...", metavar="CONTAINER[/PREFIX]",
            required=True, brief="the container, and a folder in it")]
    prefix: Annotated[str,
        of_field("", str, "",
            f"start of the objects' names, which a number follows [default: {BENCH_PREFIX}]",
            default=None, metavar="PREFIX")] = BENCH_PREFIX
    containers: Annotated[int,
        of_field("--containers", units.count, WHAT, "number of containers",
            brief="number of containers, 1")] = 1
    users: Annotated[int,
        of_field(_USERS, units.count, WHAT, "concurrent users; of mixed, of each operation",
            brief="concurrent users, 1")] = 1
    count: Annotated[int,
        of_field("--count", units.count, WHAT, "number of objects",
            brief="number of objects, 1000")] = 1000
    seconds: Annotated[float | None,
        of_field("--time", units.seconds, WHAT,
            "end after this time, even if some objects were not used")] = None
    iterations: Annotated[int,
        of_field("--iterations", units.count, WHAT, "how often each object has its turn")] = 1
    delete_behind: Annotated[int, _DELETE_BEHIND] = 10_000
    #: None: unknown.
    size: Annotated[int | None,
        of_field("--size", units.size, WHAT, "size of the objects", default=4096,
            brief="size of the objects, as in 4096 or 1M")] = None
    max_size: Annotated[int | None,
        of_field("--max-size", units.size, WHAT,
            "sizes are random from --size up to, but not including, this; each object's size "
            "follows from its number [default: all objects have --size]")] = None
    headers: Annotated[Mapping[str, str], _HEADERS] = {}
    run: RunConfig

    # fmt: on

    def __post_init__(self) -> None:
        try:
            container_base(self.container)
            headers(self.headers)
        except ValueError as error:
            raise UsageError(f"bench {self.method.name}: {error}") from error
        if has_dot_segment(self.container) or has_dot_segment(f"{self.prefix}0"):
            raise UsageError('container and prefix: no segment may be "." or ".."')
        if self.size is None and (self.run.verify or self.max_size is not None):
            raise UsageError("--size is missing: --verify and --max-size need it")
        if self.size is not None and self.max_size is not None and self.max_size <= self.size:
            raise UsageError(f"--max-size {self.max_size} is not above --size {self.size}")

    @property
    def total(self) -> int | None:
        """Operations; None if time ends the run."""
        return None if self.method.is_mixed else self.count * self.iterations

    @property
    def names(self) -> dict[str, str]:
        """For StorageSettings.names."""
        return {"kind": "numbered", "prefix": self.prefix}

    @property
    def scenario(self) -> Scenario:
        """The run as reports show it."""
        groups = self._groups
        return Scenario(
            name=f"bench {self.method.name}",
            sizes=(self._size_class(mix((group.users, group.profile) for group in groups)),),
            user_count=sum(group.users for group in groups),
            operation_count=self.total if self.seconds is None else None,
            run_seconds=self.seconds,
            container_base=self.container,
            container_count=self.containers,
            groups=groups if self.method.is_mixed else (),
            headers=self.headers,
            source=f"bench {self.method.name}",
            **self.run.overrides,
        )

    @property
    def plan(self) -> RunPlan:
        """Names, containers and operations of the run."""
        from ssbench.core.workload.workload import (  # not for options
            MixedWorkload,
            NumberedWorkload,
        )

        size_class = self._size_class(()) if self.size is not None else None
        if self.method.is_mixed:
            assert size_class is not None  # nosec B101 # for the type checker
            mixed = MixedWorkload(size_class, self._groups, self.delete_behind)
            return RunPlan(self.names, self.method.uploads, mixed)
        (row,) = self.method.operations
        work = NumberedWorkload(row, size_class, self.count, self.iterations)
        return RunPlan(self.names, self.method.uploads, work)

    @property
    def _groups(self) -> tuple[Group, ...]:
        return tuple(
            Group(row.alias or row.name, self.users, ((int(row), 1.0),))
            for row in self.method.operations
        )

    def _size_class(self, profile: Profile) -> SizeClass:
        low = self.size or 0
        most = _LARGEST if self.size is None else low
        high = most if self.max_size is None else self.max_size - 1
        return SizeClass(_CLASS, low, high, profile, self.count)


# fmt: off
class SuiteConfig(Struct, frozen=True, kw_only=True):
    """All steps of both series."""

    container: Annotated[str,
        of_field("", str, "", "start of the containers' names", default="bench-ec-",
            metavar="PREFIX", brief="start of the containers' names, bench-ec-")]
    containers: Annotated[int,
        of_field("--containers", units.count, WHAT, "number of containers of each step")] = 100
    users: Annotated[int,
        of_field(_USERS, units.count, WHAT, "concurrent users",
            brief="concurrent users, 250")] = 250
    mixed_users: Annotated[int,
        of_field("--mixed-users", units.count, WHAT,
            "concurrent users of each operation of mixed")] = 50
    count: Annotated[int,
        of_field("--count", units.count, WHAT, "number of objects of 4 KiB",
            brief="number of objects of 4 KiB, 10000000")] = 10_000_000
    large_count: Annotated[int,
        of_field("--large-count", units.count, WHAT, "number of objects of 1 MiB",
            brief="number of objects of 1 MiB, 1000000")] = 1_000_000
    iterations: Annotated[int,
        of_field("--iterations", units.count, WHAT, "how often each object is read")] = 3
    seconds: Annotated[float,
        of_field("--time", units.seconds, WHAT, "length of each mixed step")] = 7200.0
    delete_behind: Annotated[int, _DELETE_BEHIND] = 10_000
    pause_s: Annotated[float,
        of_field("--pause", units.seconds_or_none, WHAT,
            "pause before a step that repeats the one before")] = 300.0
    long_pause_s: Annotated[float,
        of_field("--long-pause", units.seconds_or_none, WHAT, "pause before others")] = 900.0
    headers: Annotated[Mapping[str, str], _HEADERS] = {}
    run: RunConfig


_POLICY = of_run("policy", help="storage policy of the containers")
_RUN = (
    *without(HOW, "keep_objects", "existing", "verify"), *ERRORS, *OWN_FILE,
    replace(PROGRESS, help="the progress on standard error, beside the lines of nectar"),
    replace(THRESHOLD, brief=""), *WORKER_COUNTS, *STORE_OPTIONS,
)
_OUTPUT = (
    row("--csv", "csv", str, RESULTS, "write each operation to this file, as nectar does",
        metavar="FILE", brief="each operation, as CSV", file="w"),
    row("--csv-over-time", "csv_over_time", str, RESULTS,
        "write the number of successes of each minute to this file, as CSV", metavar="FILE",
        file="w"),
    *PAGE,
)
# fmt: on


def _rows_of(method: Method) -> tuple[Option, ...]:
    """The options of a command, by what it does."""
    rows = {each.name: each for each in options_of_fields(BenchConfig)}
    if method.is_mixed:
        del rows["count"], rows["iterations"]
        rows["seconds"] = replace(rows["seconds"], default=600.0, help="length of the run")
    else:
        del rows["delete_behind"]
        if method.removes:
            del rows["iterations"]
    if not method.uploads:
        rows["size"] = replace(
            rows["size"],
            default=None,
            help="size of the objects, as given to put; required by --verify [default: unknown]",
        )
    if not (method.uploads or method.receives):
        del rows["size"], rows["max_size"]
    own = ["keep_objects"] if method.is_mixed else []
    own += ["verify"] if method.receives else []
    policy = (_POLICY,) if method.uploads else ()
    return (*rows.values(), *policy, *only(HOW, *own), *_OUTPUT, *_RUN)


#: Command behind ``bench`` -> its options.
ROWS = {
    **{name: _rows_of(method) for name, method in METHODS.items()},
    "suite": (
        *options_of_fields(SuiteConfig),
        _POLICY,
        row("--csv-dir", "csv_dir", str, RESULTS,
            "folder of the CSV files, one for each step, which must exist", default=".",
            metavar="DIR", brief="folder of the CSV files, one for each step", file="d"),
        *_RUN,
    ),
}  # fmt: skip


COMMAND = "nectar"
#: Environment variables with secrets, which no worker may inherit.
_SECRET_VARIABLES = ("AUTH_KEY", "AUTH_PASSWORD")
_SWITCHES = {"I", "v", "continue-on-error"}
#: nectar's own option -> the variable that sets it; "": none.
_GLOBAL = {
    "A": "AUTH_URL", "T": "AUTH_TENANT", "U": "AUTH_USER", "K": "AUTH_KEY", "P": "AUTH_PASSWORD",
    "R": "", "O": "", "I": "", "H": "", "C": "CONCURRENCY", "v": "", "continue-on-error": "",
}  # fmt: skip
_ALL = {"containers": "--containers", "csv": "--csv", "csvot": "--csv-over-time"}
_COUNT, _SIZE = {"count": "--count"}, {"size": "--size", "maxsize": "--max-size"}
_ITERATIONS = {"iterations": "--iterations"}
#: Command -> its options -> those of ``bench``.
_COMMANDS = {
    "bench-put": {**_ALL, **_COUNT, **_SIZE},
    "bench-get": {**_ALL, **_COUNT, **_ITERATIONS},
    "bench-head": {**_ALL, **_COUNT, **_ITERATIONS},
    "bench-post": {**_ALL, **_COUNT},
    "bench-delete": {**_ALL, **_COUNT},
    "bench-mixed": {**_ALL, **_SIZE, "time": "--time"},
}
_DEFAULT_COUNT, _DEFAULT_SECONDS, _DEFAULT_BEHIND = 1000, 600.0, 10_000
_SCALE = "--scale"


def translate(words: Sequence[str], environ: MutableMapping[str, str]) -> list[str]:
    """As ``bench_words``; takes the secrets out of the environment.

    :raises UsageError: as ``bench_words``.
    """
    found = bench_words(words, environ)
    for name in _SECRET_VARIABLES:
        environ.pop(name, None)
    return found


def bench_words(words: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The command line of ``bench`` for nectar's, and its variables.

    Leading words with two dashes are for us: ``--scale=F`` multiplies counts and times (at least 1
    object and 1 s), all others go to ``bench`` as they are.

    :raises UsageError: nectar's benchmark would not accept it. The message shows no value.
    """
    leading, rest = own_words(words, _GLOBAL, _SWITCHES)
    own = [word for word in leading if not word.startswith(f"{_SCALE}=")]
    scales = [_scale(word) for word in leading if word not in own]
    given, rest = parse_flags(rest, _GLOBAL, _SWITCHES, COMMAND)
    if not rest or rest[0] not in _COMMANDS:
        raise UsageError(f"{COMMAND}: give a command: {', '.join(_COMMANDS)}")
    command, known = rest[0], _COMMANDS[rest[0]]
    options, places = parse_flags(rest[1:], known, _SWITCHES, command)
    rows = ROWS[command.removeprefix("bench-")]
    check_values(options, known, rows, f"{COMMAND} {command}")
    check_values(given, {"C": "-u"}, rows, COMMAND)
    if not places:
        raise UsageError(f"{COMMAND} {command}: give <container>[/<prefix>]")
    found = ["bench", command.removeprefix("bench-"), *places]
    for name, values in _scaled(command, options, scales[-1] if scales else 1.0).items():
        found += [known.get(name, name), values]
    return [*found, *_global_words(given, environ), *own]


def _scaled(command: str, options: Mapping[str, Sequence[str]], scale: float) -> dict[str, str]:
    """The command's options with their last values; counts and times are multiplied."""
    values = {name: each[-1] for name, each in options.items()}
    if scale == 1:
        return values
    if "count" in _COMMANDS[command]:
        count = int(values.get("count", _DEFAULT_COUNT))
        values["count"] = str(max(1, round(count * scale)))
    else:
        seconds = parse_duration(values.get("time", str(_DEFAULT_SECONDS)))
        values["time"] = str(max(1.0, seconds * scale))
        values["--delete-behind"] = str(max(1, round(_DEFAULT_BEHIND * scale)))
    return values


def _global_words(given: Mapping[str, Sequence[str]], environ: Mapping[str, str]) -> list[str]:
    last = {name: values[-1] for name, values in given.items()}
    value = {name: last.get(name) or environ.get(_GLOBAL[name], "") for name in _GLOBAL}
    switches = {name for name in _SWITCHES if last.get(name, "").lower() in TRUE}
    found = [] if "continue-on-error" in switches else ["--stop-on-error"]
    found += ["-v"] if "v" in switches else []
    found += ["-u", value["C"]] if value["C"] else []
    found += _login(value) if value["A"] else []
    found += ["--os-region-name", value["R"]] if value["R"] else []
    found += ["--os-endpoint-type", "internal"] if "I" in switches else []
    for header in given.get("H", ()):
        found += ["--header", header]
    for url in filter(None, value["O"].split(",")):
        found += ["-S", url.strip()]
    return found


def _login(value: Mapping[str, str]) -> list[str]:
    """By the version in the URL's path, as in nectar: v3, v2.0, else version 1."""
    try:
        parts = urlsplit(value["A"]).path.split("/")
    except ValueError:
        parts = []  # the login reports what is wrong with it
    user, tenant, key = value["U"], value["T"], value["P"] or value["K"]
    if not {"v3", "v2.0"} & {*parts}:
        user = f"{tenant}:{user}" if tenant else user
        return ["-V", "1.0", "-A", value["A"], "-U", user, "-K", value["K"] or value["P"]]
    found = ["-V", "3" if "v3" in parts else "2.0", "-A", value["A"], "-U", user, "-K", key]
    found += ["--os-project-name", tenant] if tenant else []
    if "v3" in parts:
        found += ["--os-user-domain-name", "Default", "--os-project-domain-name", "Default"]
    return found


def _scale(word: str) -> float:
    try:
        scale = float(word.partition("=")[2])
    except ValueError:
        scale = 0.0
    if not 0 < scale <= 1:
        raise UsageError(f"{_SCALE}: give a factor above 0, at most 1, as in {_SCALE}=0.001")
    return scale
