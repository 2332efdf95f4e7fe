"""Command-line options as rows, and the types of their values.

A row says all that a parser, a configuration and the reference page need to know of an option.
Commands list rows of ``ssbench.cli``, and those of the store (``storage.registry``). A type is a
function that converts the text of an argument; it raises UsageError with what would be valid, and
never shows a value that may be secret.
"""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timezone
from functools import cache
from inspect import get_annotations
from typing import Any, TypeVar
from urllib.parse import SplitResult, parse_qsl, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from ssbench.core.errors import UsageError
from ssbench.core.units import Unit, count, port, seconds_or_none

#: Sections of the help.
WHAT, LOAD, EXECUTION = "what to run", "load and measurement", "execution"
WORKERS, RESULTS, SEARCH = "workers", "results", "search"
VARIABLE_PREFIX = "SSBENCH_"
TRUE, FALSE = ("true", "1", "yes", "on", "t", "y"), ("false", "0", "no", "off", "f", "n")

_OF_FIELD = object()

S = TypeVar("S", bound=Struct)
#: Of the value: a unit, or a function that converts the text.
OptionType = Unit[int] | Unit[float] | Callable[[str], Any]


class Option(Struct, frozen=True):
    """One command-line option, or a positional argument where ``flags`` is empty.

    :param flags: all spellings that the help shows, the long one or ones among them.
    :param name: attribute of the parsed command line; rows of one name set the same value.
    :param type: converts the text; ``bool``: the option takes no text, and sets ``const``.
    :param default: None: not given.
    :param group: title of the section of the help; "": none.
    :param scenario_key: key of the scenario that the option overrides; "": none.
    :param secret: the value is hidden in process lists and never shown.
    :param choices: values that are valid; None: any that ``type`` accepts.
    :param repeat: may be given several times; the value is a list.
    :param aliases: further flags that are accepted, and not shown in the help.
    :param variables: environment variables that set it where the command line does not, the first
        that is set and not empty.
    :param exclusive: of options of one command with the same text here, one on the command line
        voids the site's default of the others. Two of them are an error, unless they are for keys
        of the scenario, whose rules say which of these counts.
    :param required: must be given; of options that exclude each other, one of them.
    :param const: value of an option without text; unless it is True, text may be left out.
    :param brief: text in the short help, 48 characters at most; "": only ``--help-all`` shows it.
    :param file: what the command does with the path on this host that the value is: "r": reads
        the file; "w": writes it, and replaces an older one; "x": makes a new one; "d": uses the
        folder. A path that is not writable is reported before the command begins. "": it is none.
    :param command_line_only: a site can set no default, because with it a command deletes or
        replaces more, or measures something else.
    :param needs: name of the option without which this one does nothing, so that it is an error.
    :param bare: the flag may be left out, as of the first word that is no option.
    :param of_store: an option of one store; its value reaches the store in StoreOptions.
    """

    flags: tuple[str, ...]
    name: str
    type: OptionType = str
    default: Any = None
    group: str = ""
    help: str = ""  #: "": accepted, but not shown
    scenario_key: str = ""
    secret: bool = False
    metavar: str | None = None
    choices: tuple[str, ...] | None = None
    repeat: bool = False
    aliases: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    exclusive: str = ""
    required: bool = False
    const: Any = True
    brief: str = ""
    file: str = ""
    command_line_only: bool = False
    needs: str = ""
    bare: bool = False
    of_store: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """Its long spellings as keys of the site's file, such as ``user-count``."""
        long = (flag[2:] for flag in (*self.flags, *self.aliases) if flag.startswith("--"))
        return tuple(dict.fromkeys(flag.replace("_", "-") for flag in long))

    @property
    def group_of_one(self) -> str:
        """``exclusive``, if only one of these may be given."""
        return "" if self.scenario_key else self.exclusive

    @property
    def site_variables(self) -> tuple[str, ...]:
        """``SSBENCH_USER_COUNT`` and so on, one for each key."""
        return tuple(VARIABLE_PREFIX + key.upper().replace("-", "_") for key in self.keys)

    def convert(self, text: str) -> Any:
        """The value of an argument, which may be any bytes: only paths of this host are.

        :raises UsageError: the text is not valid.
        """
        if self.file and not text:
            raise UsageError("is empty: give a name, or leave the option out")
        if not (self.file or text.isascii()):
            try:
                text.encode()
            except UnicodeEncodeError:
                raise UsageError("is not UTF-8, as names are in stores and messages") from None
        return self.value(text)

    def read(self, raw: object, place: str) -> Any:
        """The value of what a site's file, a variable or a program gives.

        :raises UsageError: it is not valid; a secret is not shown.
        """
        if self.type is bool or (isinstance(raw, bool) and self.const is not True):
            text = str(raw).strip().lower()
            if text not in TRUE + FALSE:
                raise UsageError(f"{place}: give true or false")
            return self.const if text in TRUE else False if self.const is True else self.default
        if isinstance(raw, list | tuple) and not self.repeat:
            raise UsageError(f"{place}: give one value, not a list")
        items = raw if isinstance(raw, list | tuple) else [raw]
        if self.repeat and isinstance(raw, str):
            items = [line.strip() for line in raw.splitlines() if line.strip()]
        values = []
        for item in items:
            if isinstance(item, bool) or not isinstance(item, str | int | float | date | time):
                raise UsageError(f"{place}: give a text or a number")
            try:
                text = item.isoformat() if isinstance(item, date | time) else str(item)
                value = self.convert(text)
            except (UsageError, ValueError) as error:  # its text may show a secret
                is_told = isinstance(error, UsageError) and not self.secret
                reason = str(error) if is_told else f"not valid; {self.help}"
                raise UsageError(f"{place}: {reason}") from (error if is_told else None)
            if self.choices and value not in self.choices:
                raise UsageError(f"{place}: choose from {', '.join(self.choices)}")
            values.append(value)
        return values if self.repeat else values[0]

    @property
    def python_type(self) -> Any:
        """What a program gives: a number, a truth value, or text; a sequence of these."""
        kind: Any = str
        if isinstance(self.type, Unit) or self.type is bool:
            kind = self.type.kind if isinstance(self.type, Unit) else bool
        kind = getattr(self.type, "python_type", kind)
        return Sequence[kind] if self.repeat else kind

    def value(self, text: str) -> Any:
        """The value of a text.

        :raises UsageError: it is not valid.
        """
        return self.type.of_text(text) if isinstance(self.type, Unit) else self.type(text)


def row(flags: str, name: str, type_: OptionType, group: str, text: str, **more: Any) -> Option:
    """An Option whose flags are separated by spaces; None is its default unless it is given."""
    more = {"default": None, "metavar": getattr(type_, "metavar", "") or None, **more}
    return Option(tuple(flags.split()), name, type_, group=group, help=text, **more)


def of_field(flags: str, type_: OptionType, group: str, text: str, **more: Any) -> Option:
    """The option that sets a field: it stands in the field's ``Annotated``, has its name, and its
    default unless another is given."""
    return row(flags, "", type_, group, text, **{"default": _OF_FIELD, **more})


@cache
def _declared(kind: type[Struct]) -> tuple[tuple[str, Option], ...]:
    """The options in the annotations of a struct's fields, in their order, each with its field.

    :raises TypeError: there are none; as texts annotations can't be read.
    """
    names, values = kind.__struct_fields__[::-1], kind.__struct_defaults__[::-1]
    defaults = dict(zip(names, values, strict=False))
    found = tuple(
        (
            field,
            replace(
                each,
                name=each.name or field,
                default=defaults.get(field) if each.default is _OF_FIELD else each.default,
            ),
        )
        for base in reversed(kind.__mro__)
        for field, hint in get_annotations(base).items()
        for each in getattr(hint, "__metadata__", ())
        if isinstance(each, Option)  # StorageSettings has keys of scenarios as well
    )
    if not found:
        raise TypeError(f"{kind.__name__} has no options: do without annotations of __future__")
    return found


@cache
def options_of_fields(kind: type[Struct]) -> tuple[Option, ...]:
    """The options in the annotations of a struct's fields, in their order. They have the names of
    their fields, unless they say another one."""
    return tuple(option for _, option in _declared(kind))


def of_options(kind: type[S], values: Mapping[str, Any]) -> S:
    """A struct with the values of the options in its annotations, which are by their names."""
    fields = ((field, option.name) for field, option in _declared(kind))
    return kind(**{field: values[name] for field, name in fields if name in values})


def check_needs(
    rows: Sequence[Option], given: Collection[str], value: Callable[[Option], Any]
) -> None:
    """Refuse options that do nothing.

    :param given: names of the options that the user gave.
    :param value: of an option; None or False: not set.
    :raises UsageError: an option was given without the one that it needs.
    """
    by_name = {row.name: row for row in rows}
    for row in rows:
        needed = by_name.get(row.needs)
        if needed is not None and row.name in given and not value(needed):
            raise UsageError(f"{row.flags[-1]} does nothing without {needed.flags[-1]}")


def options_text(text: str) -> list[str]:
    """Options in one argument, quoted as in a shell: ``'-u 10 --s3-style virtual'``."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{error}: quote the options as in a shell") from error


def path(text: str) -> str:
    """A path that workers get, too; not empty."""
    if not text:
        raise UsageError("is empty: give the path of a folder")
    return text


def ip_address(text: str) -> str:
    """An IPv4 or IPv6 address."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise UsageError(f"{text!r} is not an IP address: give one, as in 192.0.2.7") from None


def instant(text: str) -> int:
    """A time as Unix nanoseconds; in UTC, unless it has a zone."""
    try:
        found = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
        found = found if found.tzinfo else found.replace(tzinfo=timezone.utc)
        return round(found.timestamp() * 1_000_000) * 1000
    except (ValueError, OverflowError):
        raise UsageError(f"{text!r} is not a time: give one as in 2026-11-20T08:00:30") from None


def address(default_port: int, *, needs_host: bool = True) -> Callable[[str], tuple[str, int]]:
    """A type for ``HOST``, ``HOST:PORT``, ``[::1]:PORT`` or ``::1``: host and port.

    :param needs_host: otherwise also ``PORT``, and the host is "".
    """
    wanted = "HOST or HOST:PORT" if needs_host else "ADDRESS, PORT or ADDRESS:PORT"

    def convert(text: str) -> tuple[str, int]:
        with suppress(ValueError):
            return str(ipaddress.IPv6Address(text.strip("[]"))), default_port
        host, colon, number = ("", ":", text) if text.isdecimal() else text.rpartition(":")
        if not colon:
            host, number = text, str(default_port)
        try:
            found = host.strip("[]"), port.of_text(number)
        except UsageError:
            found = "", 0
        if not found[1] or "/" in text or (needs_host and not found[0]):
            raise UsageError(f"{text!r}: give {wanted}, with a port of 1 to 65535")
        return found

    return convert


def think_time(text: str) -> list[float]:
    """``0.5``, or ``0.1,2`` for a random time in between; shortest and longest time in seconds."""
    parts = [seconds_or_none.of_text(part) for part in text.split(",")]
    if len(parts) > 2 or parts[0] > parts[-1]:
        raise UsageError(f"{text!r}: give seconds, or the shortest and the longest as in 0.1,2")
    return [parts[0], parts[-1]]


def header(text: str) -> tuple[str, str]:
    """``NAME: VALUE`` of a request header."""
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise UsageError("give a header as 'NAME: VALUE'")
    return name.strip(), value.strip()


def batch_size(text: str) -> int | None:
    """Most jobs in a batch; None for ``auto``."""
    if text == "auto":
        return None
    try:
        return count.of_text(text)
    except UsageError:
        raise UsageError(f"{text!r}: give auto, or a number of 1 or more") from None


class AssumedUrl(str):
    """A URL whose scheme was left out; ``note`` tells the user which one it has."""

    __slots__ = ()

    @property
    def note(self) -> str:
        place = "/".join(self.split("/", 3)[:3])
        return f"No scheme was given, so {place} is used; ports that end in 443 mean https"


def is_loopback(host: str) -> bool:
    """Whether what is sent there stays on this host. A name other than localhost, such as
    127.example.com, may be of any address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


_HOST_AND_PORT = re.compile(
    r"(?P<host>\w[\w.-]*|\[[\w:.%]+\]):(?P<port>[0-9]{1,5})(?:[/?#].*)?", re.ASCII | re.DOTALL
)


def with_scheme(url: str, *, sends_password: bool = False) -> str:
    """``HOST:PORT/...`` as a URL, any other text as it is: https where the port ends in 443, else
    http.

    :param sends_password: the password goes there, so only loopback has http.
    """
    found = _HOST_AND_PORT.fullmatch(url)
    if found is None:
        return url
    is_local = is_loopback(found["host"].strip("[]"))
    is_https = found["port"].endswith("443") or (sends_password and not is_local)
    return AssumedUrl(f"{'https' if is_https else 'http'}://{url}")


#: Parameters of a URL that InfluxDB takes secrets in; and the units that fit our times.
_SECRET_PARAMETERS = {"u", "p", "token"}
_NANOSECONDS = ("ns", "n", "nanosecond", "auto")


def _http_parts(text: str) -> SplitResult | None:
    """The parts of an http or https URL; None: it is none."""
    try:
        parts = urlsplit(text)
        is_http = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port that is none, and others
        return None
    is_clean = text.isascii() and text.isprintable() and " " not in text
    return parts if is_http and is_clean else None


def influx_url(text: str) -> str:
    """An http or https URL that takes InfluxDB's line protocol, without a secret."""
    text = with_scheme(text)
    fault = "give the URL that takes the lines"
    if parts := _http_parts(text):
        parameters = dict(parse_qsl(parts.query))
        if parts.username is not None or _SECRET_PARAMETERS & parameters.keys():
            fault = "secrets in a URL are seen in process lists: give a token as INFLUX_TOKEN"
        elif parameters.get("precision", "ns") not in _NANOSECONDS:
            fault = "the times are in nanoseconds: leave out precision"
        elif parts.path not in ("", "/"):
            return text
    raise UsageError(
        f"{fault}, such as http://127.0.0.1:8086/api/v2/write?org=ORG&bucket=BUCKET (InfluxDB 2)"
        " or http://127.0.0.1:8086/write?db=DATABASE"
    )


_METRICS_PATH = "/v1/metrics"


def otlp_url(text: str, *, is_whole: bool = False) -> str:
    """The URL of a collector's metrics over OTLP/HTTP, without a secret.

    :param text: "" stays: the environment gives the URL.
    :param is_whole: the path is complete, whatever it is; else /v1/metrics is added where it lacks.
    """
    if not text:
        return text
    parts = _http_parts(text)
    if parts and (parts.username is not None or parts.query):
        raise UsageError(
            "secrets in a URL are seen in process lists: give headers in"
            " OTEL_EXPORTER_OTLP_HEADERS or --otlp-headers"
        )
    if parts:
        is_whole = is_whole or parts.path.endswith(_METRICS_PATH)
        return text if is_whole else f"{text.rstrip('/')}{_METRICS_PATH}"
    raise UsageError("give the URL of a collector for OTLP/HTTP, such as http://127.0.0.1:4318")
