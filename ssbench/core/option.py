"""Command-line options as rows, and the types of their values.

A row says all that a parser, a configuration and the reference page need to know of an option.
Commands list rows of ``ssbench.cli``, and those of the store (``storage.registry``). A type is a
function that converts the text of an argument; it raises UsageError with what would be valid, and
never shows a value that may be secret.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct

from ssbench.core.errors import UsageError
from ssbench.core.text import (
    DURATION_EXAMPLES,
    MAX_DURATION_S,
    MAX_SEED,
    MAX_WHOLE,
    SIZE_EXAMPLES,
    parse_duration,
    parse_size,
)

VARIABLE_PREFIX = "SSBENCH_"


class Option(Struct, frozen=True):
    """One command-line option, or a positional argument where ``flags`` is empty.

    :param flags: all spellings that the help shows, the long one or ones among them.
    :param name: attribute of the parsed command line; rows of one name set the same value.
    :param type: converts the text; ``bool``: the option takes no text, and sets ``const``.
    :param default: None: not given.
    :param group: title of the section of the help; "": none.
    :param scenario_key: key of the scenario that the option overrides.
    :param secret: the value is hidden in process lists and never shown.
    :param choices: values that are valid; None: any that ``type`` accepts.
    :param repeat: may be given several times; the value is a list.
    :param hidden: accepted, but not shown in the help.
    :param aliases: further flags that are accepted, and not shown in the help.
    :param variables: environment variables that set it where the command line does not, the first
        that is set and not empty.
    :param exclusive: options of one command with the same text here exclude each other.
    :param required: must be given; of options that exclude each other, one of them.
    :param const: value of an option without text; unless it is True, text may be left out.
    :param brief: text in the short help, 48 characters at most; "": only ``--help-all`` shows it.
    :param file: what the command does with the path on this host that the value is: "r": reads
        the file; "w": writes it, and replaces an older one; "x": makes a new one; "d": uses the
        folder. A path that is not writable is reported before the command begins. "": it is none.
    :param rivals: options with the same text here replace each other: one on the command line voids
        the site's default of the others. Options that exclude each other do so anyway.
    :param command_line_only: a site can set no default, because with it a command deletes or
        replaces more, or measures something else.
    :param of_store: an option of one store; its value reaches the store in StoreOptions.
    """

    flags: tuple[str, ...]
    name: str
    type: Callable[[str], Any] = str
    default: Any = None
    group: str = ""
    help: str = ""
    scenario_key: str | None = None
    secret: bool = False
    metavar: str | None = None
    choices: tuple[str, ...] | None = None
    repeat: bool = False
    hidden: bool = False
    aliases: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    exclusive: str = ""
    required: bool = False
    const: Any = True
    brief: str = ""
    file: str = ""
    rivals: str = ""
    command_line_only: bool = False
    of_store: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """Its long spellings as keys of the site's file, such as ``user-count``."""
        long = (flag[2:] for flag in (*self.flags, *self.aliases) if flag.startswith("--"))
        return tuple(dict.fromkeys(flag.replace("_", "-") for flag in long))

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
        return self.type(text)


def whole(least: int, most: int = MAX_WHOLE) -> Callable[[str], int]:
    """A type for whole numbers between ``least`` and ``most``, both included."""
    wanted = f"a whole number of {least} or more" if most == MAX_WHOLE else f"{least} to {most}"

    def convert(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise UsageError(f"{text!r} is not a whole number: give {wanted}") from None
        if number > most:
            raise UsageError(f"{text} is out of range: give {least} to {most}")
        if number < least:
            raise UsageError(f"{text} is out of range: give {wanted}")
        return number

    return convert


def path(text: str) -> str:
    """A path that workers get, too; not empty."""
    if not text:
        raise UsageError("is empty: give the path of a folder")
    return text


count = whole(1)
count_or_none = whole(0)
port = whole(1, 65535)
seed = whole(0, MAX_SEED)


def seconds(text: str) -> float:
    """A duration above 0, with or without a unit."""
    number = _duration(text, "seconds above 0")
    if number == 0:
        raise UsageError(f"{text} is not a duration: {_give('seconds above 0')}")
    return number


def seconds_or_none(text: str) -> float:
    """A duration, 0 included, with or without a unit."""
    return _duration(text, "seconds, 0 or more")


def whole_seconds(least: int) -> Callable[[str], int]:
    """A type for durations of whole seconds, from ``least`` on."""

    def convert(text: str) -> int:
        number = seconds_or_none(text)
        if number != int(number) or number < least:
            raise UsageError(f"{text} is out of range: give whole seconds, {least} or more")
        return int(number)

    return convert


def size(text: str) -> int:
    """Bytes, 1 or more, with or without a unit."""
    try:
        number = parse_size(text)
    except ValueError:
        number = 0
    if number < 1:
        raise UsageError(f"{text!r} is not a size: give bytes above 0, as in {SIZE_EXAMPLES}")
    if number > MAX_WHOLE:
        raise UsageError(f"{text} is out of range: give at most {MAX_WHOLE} bytes")
    return number


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
            found = host.strip("[]"), port(number)
        except UsageError:
            found = "", 0
        if not found[1] or "/" in text or (needs_host and not found[0]):
            raise UsageError(f"{text!r}: give {wanted}")
        return found

    return convert


def factor(text: str) -> float:
    """A number from 0.001 to 1,000,000."""
    number = _number(text, "a factor")
    if not 0.001 <= number <= 1_000_000:
        raise UsageError(f"{text} is out of range: give a factor from 0.001 to 1000000")
    return number


def rate(text: str) -> float:
    """Operations per second."""
    number = _number(text, "operations per second")
    if number <= 0:
        raise UsageError(f"{text} is not a rate: give operations per second, above 0")
    return number


def think_time(text: str) -> list[float]:
    """``0.5``, or ``0.1,2`` for a random time in between; shortest and longest time in seconds."""
    parts = [seconds_or_none(part) for part in text.split(",")]
    if len(parts) > 2 or parts[0] > parts[-1]:
        raise UsageError(f"{text!r}: give seconds, or the shortest and the longest as in 0.1,2")
    return [parts[0], parts[-1]]


def header(text: str) -> tuple[str, str]:
    """``NAME: VALUE`` of a request header."""
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise UsageError("give a header as 'NAME: VALUE'")
    return name.strip(), value.strip()


def percentile(text: str) -> float:
    """Above 0, up to 100."""
    number = _number(text, "a percentile")
    if not 0 < number <= 100:
        raise UsageError(f"{text} is not a percentile: give one above 0, at most 100")
    return number


def tolerance(text: str) -> float:
    """Percent, between 0 and 100."""
    number = _number(text, "percent")
    if not 0 < number < 100:
        raise UsageError(f"{text} is not a tolerance: give percent, above 0 and below 100")
    return number


def batch_size(text: str) -> int | None:
    """Most jobs in a batch; None for ``auto``."""
    if text == "auto":
        return None
    try:
        return count(text)
    except UsageError:
        raise UsageError(f"{text!r}: give auto, or a number of 1 or more") from None


def _duration(text: str, wanted: str) -> float:
    try:
        number = parse_duration(text)
    except ValueError:
        number = -1.0
    if number < 0:
        raise UsageError(f"{text!r} is not a duration: {_give(wanted)}")
    if number > MAX_DURATION_S:
        raise UsageError(f"{text} is out of range: give at most {MAX_DURATION_S:,} seconds")
    return number


def _give(wanted: str) -> str:
    return f"give {wanted}, as in {DURATION_EXAMPLES}"


def _number(text: str, what: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"{text!r} is not a number: give {what}, as in 2.5")
    return number


#: Parameters of a URL that InfluxDB takes secrets in; and the units that fit our times.
_SECRET_PARAMETERS = {"u", "p", "token"}
_NANOSECONDS = ("ns", "n", "nanosecond", "auto")


def influx_url(text: str) -> str:
    """An http or https URL that takes InfluxDB's line protocol, without a secret."""
    fault = "give the URL that takes the lines"
    try:
        parts = urlsplit(text)
        parameters = dict(parse_qsl(parts.query))
        if parts.username is not None or _SECRET_PARAMETERS & parameters.keys():
            fault = "secrets in a URL are seen in process lists: give a token as INFLUX_TOKEN"
        elif parameters.get("precision", "ns") not in _NANOSECONDS:
            fault = "the times are in nanoseconds: leave out precision"
        elif (
            parts.scheme in ("http", "https")
            and parts.hostname
            and parts.port != 0
            and parts.path not in ("", "/")
            and text.isascii()
            and text.isprintable()
            and " " not in text
        ):
            return text
    except ValueError:  # a port that is none, and others
        pass
    raise UsageError(
        f"{fault}, such as http://127.0.0.1:8086/api/v2/write?org=ORG&bucket=BUCKET (InfluxDB 2)"
        " or http://127.0.0.1:8086/write?db=DATABASE"
    )
