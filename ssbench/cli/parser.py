"""argparse, made to show defaults in its help and to keep what may be secret off the screen."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from ssbench.cli.console import tell


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

    A long option may be cut short where that is unambiguous, as in ssbench 0.3.9. argparse's own
    ``allow_abbrev`` would show an ambiguous ``--os-p=secret`` in full, so this does it instead.

    :param stray: what to say of arguments that belong to no option.
    """

    def __init__(self, *args: Any, stray: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **{"formatter_class": HelpFormatter, **kwargs})
        self.allow_abbrev = False
        self._stray = stray

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As argparse's, but what is not known is an error of this parser.

        A command's parser is asked in this way by that of all commands, which would otherwise
        report the command's mistakes as its own.
        """
        words = self._spelt_out(sys.argv[1:] if args is None else args)
        found, left = super().parse_known_args(words, namespace)
        if left:
            many = f"{len(left)} argument{'s' if len(left) > 1 else ''} too many"
            self.error(f"{many}; {self._stray}" if self._stray else many)
        return found, left

    def error(self, message: str) -> NoReturn:
        tell(f"{self.prog}: {message}")
        print(f"({self.prog} -h shows what can be given)", file=sys.stderr)
        sys.exit(2)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # argparse's own text repeats the value, which may be the password of a misplaced -K.
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        near = [choice for choice in choices if value and choice.startswith(str(value))]
        near = near or get_close_matches(str(value), choices, n=1)
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        raise argparse.ArgumentError(
            action, f"no such choice; {meant}there are {', '.join(choices)}"
        )

    def _spelt_out(self, words: Sequence[str]) -> list[str]:
        """The words with options that were cut short in full.

        Unknown options are an error here, before argparse complains of a missing ``-f`` where
        ``--scenariofile`` was given.
        """
        found: list[str] = []
        unknown: list[str] = []
        for index, word in enumerate(words):
            if word == "--" or (self._subparsers and not word.startswith("-")):
                found += words[index:]  # the rest is arguments, or of a command
                break
            found.append(self._full(word, unknown))
        if unknown:
            self.error(f"no such option here: {', '.join(unknown)}{self._meant(unknown)}")
        return found

    def _full(self, word: str, unknown: list[str]) -> str:
        """One word; an option that isn't known is added to ``unknown``, without its value."""
        options = self._option_string_actions
        if len(word) < 2 or not word.startswith("-") or _NUMBER.match(word) or word in options:
            return word
        if not word.startswith("--"):
            if word[:2] not in options:
                unknown.append(word[:2])
            return word
        name, equals, value = word.partition("=")
        if name in options or (" " in word and not equals):
            return word
        near = self._beginning_with(name)
        if len(near) > 1:
            self.error(f"{name} is ambiguous: it may be {' or '.join(near)}")
        if not near:
            unknown.append(name)
        return f"{near[0]}{equals}{value}" if near else word

    def _beginning_with(self, name: str) -> list[str]:
        """The long options that this may be cut short of, one of each."""
        found: dict[str, str] = {}
        for option, dest in self._told().items():
            if option.startswith(name):
                found.setdefault(dest, option)
        return list(found.values())

    def _told(self) -> dict[str, str]:
        """The long options that the help shows, and their other spellings; what each sets."""
        shown = {a.dest for a in self._actions if a.help != argparse.SUPPRESS}
        return {
            option: action.dest
            for option, action in self._option_string_actions.items()
            if option.startswith("--") and action.dest in shown
        }

    def _meant(self, unknown: Sequence[str]) -> str:
        """``; did you mean ...?`` where there is one to be sure of what is asked."""
        known = [option for option in self._told() if "_" not in option]
        names = [name for name in unknown if len(name) <= _LONGEST_NAME]
        near = [get_close_matches(name.replace("_", "-"), known, n=2) for name in names]
        words = list(dict.fromkeys(word for words in near for word in words))
        if words:
            return f"; did you mean {' or '.join(words)}?"
        return "; a command's options go behind its name" if self._subparsers else ""


_NUMBER = re.compile(r"-\d")
_LONGEST_NAME = 64  #: characters; difflib is quadratic
