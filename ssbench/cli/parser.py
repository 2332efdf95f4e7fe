"""argparse, made to show defaults in its help and to keep what may be secret off the screen."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from ssbench.cli.plain import tell


class HelpFormatter(argparse.HelpFormatter):
    """Adds the default to each option's help, where there is one to speak of."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text = action.help
        silent = action.default in (None, False, argparse.SUPPRESS) or action.default == []
        if text and not silent and "default" not in text:
            return f"{text} [default: %(default)s]"
        return text


class Parser(argparse.ArgumentParser):
    """Exits with 2 and a short message, which repeats no value that may be a password.

    Options can't be abbreviated: an ambiguous ``--os-p=secret`` would be shown in full.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"formatter_class": HelpFormatter, **kwargs})
        self.allow_abbrev = False

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        known, left = self.parse_known_args(args, namespace)
        if left:
            self.error(_unrecognized(left))
        return known

    def error(self, message: str) -> NoReturn:
        tell(f"{self.prog}: {message}")
        print(f"({self.prog} -h shows what can be given)", file=sys.stderr)
        sys.exit(2)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # argparse's own text repeats the value, which may be the password of a misplaced -K.
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        near = get_close_matches(str(value), choices, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise argparse.ArgumentError(
            action, f"no such choice; {meant}there are {', '.join(choices)}"
        )


def _unrecognized(left: Sequence[str]) -> str:
    """Names options only, and those without their values: ``-Ksecret`` is ``-K``."""
    names = [
        text.partition("=")[0] if text.startswith("--") else text[:2]
        for text in left
        if text.startswith("-") and len(text) > 1
    ]
    values = len(left) - len(names)
    if not names:
        return f"{values} argument{'s' if values > 1 else ''} too many"
    return f"no such option here: {', '.join(names)}"
