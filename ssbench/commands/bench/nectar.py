"""``nectar ARGS``: a command line of nectar's benchmark as one of ``bench``.

The options before the command are nectar's own, those behind it are
the command's.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from urllib.parse import urlsplit

from ssbench.commands.bench.settings import ROWS
from ssbench.commands.go_flags import TRUE, check_values, own_words, parse_flags
from ssbench.core.errors import UsageError
from ssbench.core.text import parse_duration

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
