"""Types of option values: functions that convert the text of an argument.

They raise ArgumentTypeError with what would be valid, and never show a value that may be secret.
Workers load this module too, so imports that only some options need are inside the functions.
"""

from __future__ import annotations

import math
import os
import stat
from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import TYPE_CHECKING

from ssbench.core.errors import UsageError
from ssbench.core.text import DURATION_EXAMPLES, SIZE_EXAMPLES, parse_duration, parse_size

if TYPE_CHECKING:
    from ssbench.core.operations import Operation
    from ssbench.core.stats.steps import Sweep

MAX_WORKER_ID = 64  #: characters


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """A type for whole numbers between ``least`` and ``most``, both included."""
    wanted = f"a whole number of {least} or more" if most is None else f"{least} to {most}"

    def convert(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ArgumentTypeError(f"{text!r} is not a whole number: give {wanted}") from None
        if number < least or (most is not None and number > most):
            raise ArgumentTypeError(f"{text} is out of range: give {wanted}")
        return number

    return convert


count = whole(1)
count_or_none = whole(0)
port = whole(1, 65535)


def seconds(text: str) -> float:
    """A duration above 0, with or without a unit."""
    number = _duration(text, "seconds above 0")
    if number == 0:
        raise ArgumentTypeError(f"{text} is not a duration: {_give('seconds above 0')}")
    return number


def seconds_or_none(text: str) -> float:
    """A duration, 0 included, with or without a unit."""
    return _duration(text, "seconds, 0 or more")


def whole_seconds(least: int) -> Callable[[str], int]:
    """A type for durations of whole seconds, from ``least`` on."""

    def convert(text: str) -> int:
        number = seconds_or_none(text)
        if number != int(number) or number < least:
            raise ArgumentTypeError(f"{text} is out of range: give whole seconds, {least} or more")
        return int(number)

    return convert


def size(text: str) -> int:
    """Bytes, 1 or more, with or without a unit."""
    try:
        number = parse_size(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ArgumentTypeError(
            f"{text!r} is not a size: give bytes above 0, as in {SIZE_EXAMPLES}"
        )
    return number


def rate(text: str) -> float:
    """Operations per second."""
    number = _number(text, "operations per second")
    if number <= 0:
        raise ArgumentTypeError(f"{text} is not a rate: give operations per second, above 0")
    return number


def think_time(text: str) -> list[float]:
    """``0.5``, or ``0.1,2`` for a random time in between; shortest and longest time in seconds."""
    parts = [seconds_or_none(part) for part in text.split(",")]
    if len(parts) > 2 or parts[0] > parts[-1]:
        raise ArgumentTypeError(
            f"{text!r}: give seconds, or the shortest and the longest as in 0.1,2"
        )
    return [parts[0], parts[-1]]


def operation(text: str) -> Operation:
    """An operation of a run, in any case; GET is READ, PUT is CREATE."""
    from ssbench.core.model import Phase
    from ssbench.core.operations import of_phase, operation_named

    row = operation_named(text)
    if row is None:
        known = ", ".join(each.name for each in of_phase(Phase.RUN))
        raise ArgumentTypeError(f"{text!r}: give one of {known}, GET or PUT")
    return row


def percentile(text: str) -> float:
    """Above 0, up to 100."""
    number = _number(text, "a percentile")
    if not 0 < number <= 100:
        raise ArgumentTypeError(f"{text} is not a percentile: give one above 0, at most 100")
    return number


def sweep(text: str) -> Sweep:
    """``users=1,20,40`` or ``rate=100,200``."""
    from ssbench.core.stats.steps import OVER, Sweep

    over, equals, values = text.partition("=")
    if over not in OVER or not equals:
        raise ArgumentTypeError(f"{text!r}: give users=1,20,40 or rate=100,200")
    convert: Callable[[str], float] = count if over == "users" else rate
    loads = tuple(convert(value.strip()) for value in values.split(","))
    for load in loads:
        if loads.count(load) > 1:
            raise ArgumentTypeError(f"{text!r}: {load:g} is given more than once")
    return Sweep(over, loads)


def tolerance(text: str) -> float:
    """Percent, between 0 and 100."""
    number = _number(text, "percent")
    if not 0 < number < 100:
        raise ArgumentTypeError(f"{text} is not a tolerance: give percent, above 0 and below 100")
    return number


def batch_size(text: str) -> int | None:
    """Most jobs in a batch; None for ``auto``."""
    if text == "auto":
        return None
    try:
        return count(text)
    except ArgumentTypeError:
        raise ArgumentTypeError(f"{text!r}: give auto, or a number of 1 or more") from None


def new_stats_file(text: str) -> str:
    """The stat file's path with ``.gz`` added where it lacks it, as in ssbench 0.3.9.

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


def http_url(text: str) -> str:
    """An http or https URL without a password in it."""
    from ssbench.core.credentials import check_http_url

    try:
        return check_http_url(text, "the URL")
    except UsageError as e:
        raise ArgumentTypeError(str(e)) from e


def auth_version(text: str) -> str:
    """``1.0``, ``2.0`` or ``3``, from any of their spellings."""
    from ssbench.core.credentials import parse_version

    try:
        return parse_version(text)
    except UsageError as e:
        raise ArgumentTypeError(str(e)) from e


def worker_id(text: str) -> str:
    """A worker's name: short and printable, so that it fits into reports and logs."""
    from ssbench.core.messages import MAX_NAME_BYTES

    fits = 0 < len(text) <= MAX_WORKER_ID and len(os.fsencode(text)) <= MAX_NAME_BYTES
    if not fits or not text.isprintable() or " " in text:
        raise ArgumentTypeError(
            f"a worker's ID has 1 to {MAX_WORKER_ID} printable characters and no spaces"
        )
    return text


def _duration(text: str, wanted: str) -> float:
    try:
        number = parse_duration(text)
    except ValueError:
        number = -1.0
    if number < 0:
        raise ArgumentTypeError(f"{text!r} is not a duration: {_give(wanted)}")
    return number


def _give(wanted: str) -> str:
    return f"give {wanted}, as in {DURATION_EXAMPLES}"


def _number(text: str, what: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ArgumentTypeError(f"{text!r} is not a number: give {what}, as in 2.5")
    return number
