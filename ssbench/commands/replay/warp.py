"""Command lines of warp (https://github.com/minio/warp), as scenarios."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping

from ssbench.commands.replay.cosbench import Made
from ssbench.core.errors import UsageError
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.text import close_matches
from ssbench.core.units import preview, seconds

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


def of_command_line(text: str) -> Made:
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
    made = json.dumps(found, indent=2) + "\n"
    Scenario.from_json(made, PLACE)
    return Made(made, notes)


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
