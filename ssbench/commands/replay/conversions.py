"""Workloads of COSBench, and command lines of warp (https://github.com/minio/warp), as scenarios.

COSBench's user guide (2.8.6) describes its workloads: they have stages, a stage has works that run
at the same time, and a work has operations with ratios. Stages with operations become those of the
scenario, stages that prepare objects its initial objects. The XML is read as untrusted input.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ssbench.core.errors import UsageError
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.text import close_matches
from ssbench.core.units import preview, seconds
from ssbench.storage.http.response import XmlReader

_MOST_ELEMENTS = 10_000
#: Of COSBench -> ours. A write to objects that exist replaces them: an UPDATE.
_OPERATIONS = {
    "read": "read", "head": "head", "list": "list", "delete": "delete",
    "write": "create", "filewrite": "create", "mwrite": "create", "mfilewrite": "create",
    "localwrite": "create",
}  # fmt: skip
_OF_FILES = ("filewrite", "mfilewrite", "localwrite")
_RANGE = re.compile(r"([curs])\((\d{1,15})(?:,(\d{1,15}))?\)", re.ASCII)
_BIN = r"\d{1,12}\|\d{1,12}\|\d{1,9}"
_HISTOGRAM = re.compile(rf"h\(({_BIN}(?:,{_BIN}){{0,999}})\)", re.ASCII)
_UNITS = {"B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3}
#: Attributes of a work, and keys of its config, that say nothing which a scenario has, or that are
#: COSBench's defaults.
_SILENT = {
    "name", "type", "workers", "runtime", "totalops", "rampup", "rampdown", "afr", "config",
    "interval", "division", "totalbytes",
}  # fmt: skip
_KNOWN = {"containers", "objects", "sizes", "cprefix", "oprefix", "csuffix", "osuffix"}


class Made(NamedTuple):
    """A scenario of another tool's workload."""

    text: str
    notes: Sequence[str]  #: what was not carried over, and what is different


class _Work(NamedTuple):
    stage: str
    number: int  #: of the workstage
    attributes: Mapping[str, str]
    operations: list[Mapping[str, str]]


class _Workload(XmlReader):
    """The attributes of the elements, in their order."""

    def __init__(self) -> None:
        super().__init__((), ())
        self.name = ""
        self.works: list[_Work] = []
        self.others: list[str] = []  #: types of storage and login
        self.delayed = False
        self._stage = ""
        self._stages = 0
        self._elements = 0

    def value(self, name: str, depth: int, text: str) -> None:
        """No element has text."""

    def take(self, name: str) -> None:
        """No element is a record."""

    def read(self, data: bytes, place: str) -> _Workload:
        self.feed(data)
        if not self._is_valid() or self.root != "workload":
            raise UsageError(f"{place}: not a workload of COSBench: expected well-formed XML with"
                             " <workload> as its root, and no document type")  # fmt: skip
        return self

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        super()._start(name, attributes)
        self._elements += 1
        if self._elements > _MOST_ELEMENTS:
            raise ValueError("too many elements")
        found = {key.lower(): value.strip() for key, value in attributes.items()}
        if name == "workload":
            self.name = found.get("name", "")
        elif name in ("storage", "auth"):
            self.others.append(f"{name} {found.get('type', '')}".strip())
        elif name == "workstage":
            self._stage = found.get("name", "")
            self._stages += 1
            self.delayed |= found.get("closuredelay", "0") not in ("0", "")
        elif name == "work":
            self.works.append(_Work(self._stage, self._stages, found, []))
        elif name == "operation" and self.works:
            self.works[-1].operations.append(found)


def of_cosbench(data: bytes, place: str) -> Made:
    """The scenario of a workload.

    :param place: the name of the file, for errors.
    :raises UsageError: it can't be read, or has no operations.
    """
    workload = _Workload().read(data, place)
    prepared = [work for work in workload.works if work.attributes.get("type") == "prepare"]
    main = [work for work in workload.works if work.operations]
    if not main:
        raise UsageError(f"{place}: no <work> has an <operation>")
    notes: list[str] = []
    convert = _Converter(place, notes)
    if workload.delayed:
        notes.append("left out: closuredelay")
    for each in dict.fromkeys(workload.others):
        notes.append(
            f"left out: {preview(each)}: say the store and the credentials with ssbench's options"
        )
    found = convert.scenario(workload.name or "COSBench", main, prepared)
    return Made(scenario_text(found, place), list(dict.fromkeys(notes)))


_NUMBERS = re.compile(r"\[\s+([\d.,\s]+?)\s+\]")


def scenario_text(found: Mapping[str, object], place: str = "scenario") -> str:
    """A scenario as JSON, with a list of numbers in a line.

    :param place: what it was made of, for errors.
    :raises ScenarioError: it is not valid.
    """
    text = json.dumps(found, indent=2) + "\n"
    text = _NUMBERS.sub(lambda row: f"[{' '.join(row[1].split())}]", text)
    Scenario.from_json(text, place)
    return text


class _Converter:
    def __init__(self, place: str, notes: list[str]) -> None:
        self._place, self._notes = place, notes

    def scenario(
        self, name: str, works: Sequence[_Work], prepared: Sequence[_Work]
    ) -> dict[str, object]:
        sizes, initial, containers = self._prepared(prepared)
        written = [
            config["sizes"]
            for work in works
            for operation in work.operations
            if "sizes" in (config := _config(work, operation))
        ]
        if not sizes:
            sizes, initial = {"object": self._size(written[0] if written else "c(0)KB")}, {}
            initial["object"] = 1
            self._notes.append("no stage prepares objects: the scenario has one initial object")
        elif any(self._size(each) not in sizes.values() for each in written):
            self._notes.append("different: what is written has the sizes of what is prepared")
        last = max((self._last(_config(work).get("objects", "")) for work in prepared), default=0)
        found: dict[str, object] = {
            "name": name[:200],
            "sizes": [{"name": label, "size": size} for label, size in sizes.items()],
            "initial_files": initial,
            "container_count": containers,
        }
        by_stage: dict[int, list[_Work]] = {}
        for work in works:
            by_stage.setdefault(work.number, []).append(work)
        if len(by_stage) == 1:
            users = self._users(works, last)
            if "users" in users:
                users["user_count"] = users.pop("users")
            return {**found, **self._length(works), **users}
        stages = [self._stage(own, last) for own in by_stage.values()]
        limits = [limit for stage in stages for limit in stage.pop("thresholds", ())]
        if limits:
            found["thresholds"] = list(dict.fromkeys(limits))
            if len({*limits}) > 1 or len(limits) < len(stages):
                self._notes.append("different: the afr of a workstage is one of the whole run")
        return {**found, "stages": stages}

    def _stage(self, works: Sequence[_Work], last: int) -> dict[str, Any]:
        """A workstage, of several that have operations."""
        found = self._length(works)
        if "cooldown" in found:
            self._notes.append("left out: rampdown: a stage has none")
            del found["cooldown"]
        if "run_seconds" in found:
            found["seconds"] = found.pop("run_seconds")
        elif found.pop("warmup", None):
            self._notes.append("left out: rampup of a workstage that its operations end")
        name = works[0].stage
        return {**({"name": name} if name else {}), **found, **self._users(works, last)}

    def _users(self, works: Sequence[_Work], last: int) -> dict[str, Any]:
        """Users and operations of works that run at the same time."""
        groups: dict[str, dict[str, Any]] = {}
        for at, work in enumerate(works):
            users = self._number(work.attributes, "workers") or 1
            label = work.attributes.get("name") or f"work {at + 1}"
            label = label if label not in groups else f"{label} {at + 1}"
            groups[label] = {"users": users, "operations": self._operations(work, last)}
        return {"groups": groups} if len(groups) > 1 else next(iter(groups.values()))

    def _prepared(self, works: Sequence[_Work]) -> tuple[dict[str, object], dict[str, int], int]:
        """Sizes and initial objects by class, and the number of containers."""
        sizes: dict[str, object] = {}
        initial: dict[str, int] = {}
        containers = 1
        for work in works:
            config = _config(work)
            size = self._size(config.get("sizes", ""))
            many = self._count(config.get("containers", "c(1)"))
            containers = max(containers, many)
            label = next((name for name, each in sizes.items() if each == size), "")
            label = label or f"object{len(sizes) + 1 if sizes else ''}"
            sizes[label] = size
            objects = self._count(config.get("objects", "c(1)"))
            initial[label] = initial.get(label, 0) + many * objects
        return sizes, initial, containers

    def _operations(self, work: _Work, last: int) -> dict[str, float]:
        """Weights by name.

        :param last: the highest number of a prepared object.
        """
        found: dict[str, float] = {}
        for operation in work.operations:
            kind = operation.get("type", "").lower()
            name = _OPERATIONS.get(kind)
            if name is None:
                self._notes.append(f"left out: operation {preview(kind)}: ssbench has none like it")
                continue
            config = _config(work, operation)
            first = self._range(config["objects"])[1] if "objects" in config else last + 1
            if name == "create" and kind not in _OF_FILES and first <= last:
                name = "update"
            if kind in _OF_FILES:
                self._notes.append(
                    f"different: {kind} sends made-up objects; upload sends files of a folder"
                )
            if config.get("hashcheck", "").lower() == "true":
                self._notes.append("left out: hashCheck: run with --verify")
            for key in config.keys() - _KNOWN - {"hashcheck"}:
                self._notes.append(f"left out: {preview(key)} of the config")
            ratio = self._number(operation, "ratio", 100)
            found[name] = found.get(name, 0) + ratio
        if not any(found.values()):
            raise UsageError(f"{self._place}: no operation of a <work> can be carried over")
        return found

    def _length(self, works: Sequence[_Work]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        seconds = [self._number(work.attributes, "runtime") for work in works]
        counts = [self._number(work.attributes, "totalops") for work in works]
        if any(seconds):
            found["run_seconds"] = max(seconds)
            if len({*seconds}) > 1:
                self._notes.append(f"different: all works run for {max(seconds)} s")
        elif any(counts):
            found["operation_count"] = sum(counts)
        else:
            found["run_seconds"] = 60
            self._notes.append("no runtime and no totalOps: the scenario has 60 s")
        if any(self._number(work.attributes, "totalbytes") for work in works):
            self._notes.append("left out: totalBytes")
        for key, ours in (("rampup", "warmup"), ("rampdown", "cooldown")):
            if most := max(self._number(work.attributes, key) for work in works):
                found[ours] = most
                if ours == "warmup" and "run_seconds" in found:  # COSBench adds it
                    found["run_seconds"] = max(seconds) + most
        given = [work.attributes["afr"] for work in works if "afr" in work.attributes]
        if given:  # the acceptable failure ratio, per million
            parts = max(self._number({"afr": each}, "afr") for each in given)
            found["thresholds"] = [f"errors <= {parts / 10_000:g}%"]
        for work in works:
            for key in work.attributes.keys() - _SILENT:
                self._notes.append(f"left out: {preview(key)} of a work")
        return found

    def _size(self, text: str) -> object:
        """``c(64)KB`` and the like as a scenario has it."""
        body, _, unit = text.strip().rpartition(")")
        factor = _UNITS.get(unit.strip().upper() or "B")
        bins = _HISTOGRAM.fullmatch(f"{body})")
        if factor is None:
            raise UsageError(f"{self._place}: sizes {preview(text)}: the unit is B, KB, MB or GB")
        if bins:
            rows = [[*map(int, row.split("|"))] for row in bins[1].split(",")]
            return {"histogram": [[low * factor, high * factor, w] for low, high, w in rows]}
        kind, low, high = self._range(f"{body})")
        if low == high:
            return low * factor
        if kind != "u":
            self._notes.append(f"different: sizes {preview(text)} are drawn uniformly")
        return {"uniform": [low * factor, high * factor]}

    def _count(self, text: str) -> int:
        _, low, high = self._range(text)
        return high - low + 1

    def _last(self, text: str) -> int:
        return self._range(text)[2] if text else 0

    def _range(self, text: str) -> tuple[str, int, int]:
        """``u(1,32)``: the kind, the first and the last."""
        found = _RANGE.fullmatch(text.strip().replace(" ", ""))
        low, high = (int(found[2]), int(found[3] or found[2])) if found else (1, 0)
        if found is None or low > high:
            raise UsageError(
                f"{self._place}: {preview(text)} is no selector; one like u(1,32), r(1,32), s(1,32)"
                " or c(5)"
            )
        return found[1], low, high

    def _number(self, attributes: Mapping[str, str], key: str, default: int = 0) -> int:
        text = attributes.get(key, "") or str(default)
        if not re.fullmatch(r"\d{1,12}", text, re.ASCII):
            raise UsageError(f"{self._place}: {key} {preview(text)} is not a whole number")
        return int(text)


def _config(work: _Work, operation: Mapping[str, str] = {}) -> dict[str, str]:
    """Keys and values of ``containers=u(1,32);objects=...``; those of an operation override."""
    pairs = [
        pair.partition("=")
        for text in (work.attributes.get("config", ""), operation.get("config", ""))
        for pair in text.split(";")
    ]
    return {key.strip().lower(): value.strip() for key, sign, value in pairs if sign}


PLACE = "--from-warp"
#: Command -> objects and their size by default, and weights of its operations.
_COMMANDS: Mapping[str, tuple[int, str, Mapping[str, float]]] = {
    "mixed": (2500, "10MiB", {}),
    "get": (2500, "10MiB", {"read": 1}),
    "put": (1, "10MiB", {"create": 1}),
    "delete": (25000, "1KiB", {"bulk_delete": 1}),
    "list": (10000, "1KB", {"list": 1}),
    "stat": (10000, "1KB", {"head": 1}),
}
#: Options of mixed -> operation, weight by default.
_MIX = {
    "get-distrib": ("read", 45.0), "stat-distrib": ("head", 30.0),
    "put-distrib": ("create", 15.0), "delete-distrib": ("delete", 10.0),
}  # fmt: skip
_SWITCHES = {
    "range", "obj.randsize", "autoterm", "tls", "insecure", "noclear", "no-color", "quiet", "q",
    "disable-multipart", "disable-http-keepalive", "list-existing", "list-flat", "noprefix", "md5",
    "json", "debug", "encrypt", "full", "stress", "keep-data", "disable-sha256-payload",
    "sse-s3-encrypt", "metadata", "analyze.v", "http2", "resolve-host",
}  # fmt: skip
_VALUES = {
    "host", "access-key", "secret-key", "session-token", "region", "signature", "bucket", "prefix",
    "host-select", "concurrent", "duration", "objects", "obj.size", "obj.generator", "batch",
    "benchdata", "autoterm.dur", "autoterm.pct", "warp-client", "syncstart", "storage-class",
    "versions", "part.size", "rps-limit", "influxdb", "analyze.out", "analyze.dur", "analyze.op",
    "analyze.host", "analyze.skip", "lookup", "serve", "checksum", "range-size", "max-keys", "tag",
    *_MIX,
}  # fmt: skip
#: What ssbench has instead of an option. Others that a scenario does not have are "left out".
_INSTEAD = {
    "host": "give the endpoints with --storage s3 --s3-endpoint",
    "tls": "give the endpoints as https://...",
    "access-key": "set AWS_ACCESS_KEY_ID",
    "secret-key": "set AWS_SECRET_ACCESS_KEY",
    "session-token": "set AWS_SESSION_TOKEN",
    "region": "give --s3-region",
    "bucket": "give --s3-bucket, which must exist and is never emptied",
    "autoterm": "give --auto-stop",
    "autoterm.dur": "give --auto-stop-window",
    "autoterm.pct": "give --auto-stop-tolerance",
    "warp-client": "give --ssh-workers, or start workers there; -u is the total of all",
    "benchdata": "give -s",
    "list-existing": "give --existing CONTAINER[/PREFIX]",
    "rps-limit": "--rate is an open loop: it does not wait for the store",
    "noclear": "give --keep-objects",
    "keep-data": "give --keep-objects",
    "insecure": "give --insecure",
    "influxdb": "give --influx",
}
_QUIET = {"no-color", "quiet", "q", "json", "debug", "analyze.v", "noprefix", "prefix"}
_HUMAN = re.compile(r"(\d{1,15}(?:\.\d{1,6})?) ?([kmgt]?)(i?)b?", re.IGNORECASE | re.ASCII)
_GO_TIME = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?(?:h|ms|m|s))+", re.ASCII)
_PART = 16 << 20  #: bytes of a part, and above which objects have parts


def of_warp(text: str) -> Made:
    """The scenario of a command line of warp. No value of a key is ever shown.

    :raises UsageError: it can't be read, or no scenario is like it.
    """
    try:
        words = shlex.split(text)
    except ValueError:
        raise UsageError(f"{PLACE}: a quote is not closed") from None
    command = next((word for word in words[1:2] if words[0].rpartition("/")[2] == "warp"), "")
    if command not in _COMMANDS:
        raise UsageError(
            f"{PLACE}: {preview(command)}: give a command line in quotes, 'warp mixed ...'; of"
            f" {', '.join(_COMMANDS)}"
        )
    options = _options(words[2:])
    objects, size_text, weights = _COMMANDS[command]
    notes = [
        f"left out: --{name}{': ' if name in _INSTEAD else ''}{_INSTEAD.get(name, '')}"
        for name in options
        if name not in _CARRIED and name not in _QUIET
    ]
    operations = dict(weights)
    if command == "mixed":
        operations = {ours: _number(options, name, most) for name, (ours, most) in _MIX.items()}
    if command == "get" and "range" in options:
        operations = {"range_read": 1}
        notes.append("different: ranges have 64 KiB (range_bytes), not a random length")
    sizes = options.get("obj.size", size_text)
    size = _sizes(sizes, is_random="obj.randsize" in options)
    count = int(_number(options, "objects", objects))
    found: dict[str, object] = {
        "name": f"warp {command}",
        "sizes": [{"name": "object", "size": size}],
        "initial_files": {"object": count},
        "container_count": 1,
        "operations": {name: weight for name, weight in operations.items() if weight},
        "run_seconds": _seconds(options.get("duration", "5m")),
        "user_count": int(_number(options, "concurrent", 20)),
    }
    if command == "put":
        notes.append("a scenario has at least one initial object; warp put has none")
    if command == "delete":
        found["bulk_count"] = int(_number(options, "batch", 100))
    if "disable-http-keepalive" in options:
        found["keep_alive"] = False
    if "storage-class" in options:
        found["headers"] = {"x-amz-storage-class": options["storage-class"]}
    if "disable-multipart" not in options and _most(size) > _PART:
        part = _bytes(options["part.size"]) if "part.size" in options else _PART
        found["large_object"] = {"above": _PART, "segment": part, "parallel": 4}
    return Made(scenario_text(found, PLACE), notes)


#: Options that the scenario has.
_CARRIED = {
    "concurrent", "duration", "objects", "obj.size", "obj.randsize", "range", "batch",
    "disable-multipart", "part.size", "disable-http-keepalive", "storage-class", *_MIX,
}  # fmt: skip


def _options(words: list[str]) -> dict[str, str]:
    """Name -> value; "" of a switch."""
    found = {}
    rest = iter(words)
    for word in rest:
        name, has_value, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or name not in _SWITCHES | _VALUES:
            near = close_matches(name, [*_SWITCHES, *_VALUES]) if word.startswith("-") else ()
            shown = (
                f"--{preview(name)[1:-1]}" if word.startswith("-") else "a word without an option"
            )
            right = f"did you mean --{near[0]}?" if near else "see warp's help"
            raise UsageError(f"{PLACE}: {shown}: warp has no such option; {right}")
        if name in _VALUES and not has_value:
            value = next(rest, "")
        if name in _SWITCHES and value == "false":
            continue
        found[name] = value
    return found


def _number(options: Mapping[str, str], name: str, default: float) -> float:
    text = options.get(name, str(default))
    if not re.fullmatch(r"\d{1,12}(?:\.\d{1,6})?", text, re.ASCII):
        raise UsageError(f"{PLACE}: --{name} {preview(text)} is not a number")
    return float(text)


def _seconds(text: str) -> float:
    """Go's ``1m30s``."""
    if not _GO_TIME.fullmatch(text):
        raise UsageError(f"{PLACE}: --duration {preview(text)}: give a time such as 5m or 1m30s")
    return sum(seconds.of_text(each) for each in re.findall(r"[\d.]+[hms]+", text))


def _bytes(text: str) -> int:
    """``10MiB``, ``1KB`` (of 1,000 bytes)."""
    found = _HUMAN.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{PLACE}: --obj.size {preview(text)}: give a size such as 10MiB")
    power = " kmgt".index(found[2].lower() or " ")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** power)


def _sizes(text: str, *, is_random: bool) -> object:
    """One size, ``MIN,MAX``, or ``SIZE:WEIGHT,SIZE:WEIGHT`` as a scenario has it."""
    if ":" in text:
        rows = [each.rpartition(":") for each in text.split(",")]
        return {"list": [[_bytes(size), _number({"obj.size": w}, "obj.size", 0)]
                         for size, _, w in rows]}  # fmt: skip
    low, _, high = text.rpartition(",")
    most = _bytes(high)
    if low:
        return {"uniform": [_bytes(low), most]}
    if not is_random or most < 256:
        return most
    # As many objects in each doubling; their mean is 0.18 of the largest, as warp says.
    return {"histogram": [[most >> n, (most >> (n - 1)) + (n == 1), 1] for n in range(8, 0, -1)]}


def _most(size: object) -> int:
    if isinstance(size, int):
        return size
    assert isinstance(size, dict)  # nosec B101 # _sizes made it
    [(kind, rows)] = size.items()
    most: int = max(rows) if kind == "uniform" else max(row[-2] for row in rows)
    return most
