"""Messages on standard error, without control characters.

Names, reasons and error texts come from workers, stores and files, and are not trusted.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import TextIO

from ssbench.core.errors import ExitStatus, gravest
from ssbench.core.text import printable


def tell(text: object, file: TextIO | None = None) -> None:
    """Print lines, on standard error unless told where."""
    print(printable_lines(str(text)), file=sys.stderr if file is None else file, flush=True)


def tell_status(reasons: Mapping[ExitStatus, str]) -> ExitStatus:
    """Say why a command's exit status is the gravest of these, as its last line; gives it."""
    status = gravest([*reasons])
    if status is not ExitStatus.OK:
        tell(f"ssbench-master: {reasons[status]} (exit status {int(status)})")
    return status


def printable_lines(text: str) -> str:
    """The text with its newlines, and else only what can be shown."""
    return "\n".join(map(printable, text.split("\n")))


def log_to_stderr(level: int, form: str) -> None:
    """Have all loggers write there, each message in a line of its own."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PlainFormatter(form))
    logging.basicConfig(level=level, handlers=[handler])


class PlainFormatter(logging.Formatter):
    """Messages are lines, tracebacks have lines; neither has control characters."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = printable(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:
        return printable_lines(super().formatException(ei))  # type: ignore[arg-type]
