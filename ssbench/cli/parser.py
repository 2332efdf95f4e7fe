"""argparse with a short and a full help, and with error messages that show no secrets.

Behind it: options as Go's package flag parses them, of programs whose command lines ssbench takes.
One dash, ``-name value`` or ``-name=value``, and ``-name`` alone for a switch.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, NoReturn

from ssbench.cli.console import check_output, tell, write_output
from ssbench.core.errors import UsageError
from ssbench.core.hiding import Hiding
from ssbench.core.option import Option, check_needs, options_text
from ssbench.core.text import close_matches, wrapped

SHOW_CONFIG = "--show-config"
#: Letters that are other options in other commands, for historical reasons; a test compares them
#: with the commands.
LETTERS = {
    "-b": "-b is --block-size in run-scenario, ab and find-limit, --container-base in "
    "cleanup-containers",
    "-c": "-c is --container-count in run-scenario, ab, find-limit and replay, --concurrency in "
    "cleanup-containers and ssbench-worker",
    "-f": "-f is --scenario in run-scenario, ab, find-limit and doctor, --report-file in "
    "report-scenario",
    "-p": "-p is --policy in ssbench-master, --profile-count in ssbench-worker",
    "-r": "-r is --run-seconds in run-scenario and ab, --rps-histogram in report-scenario",
}


class SiteValue(Hiding, frozen=True):
    """A default of the site. The repr does not show the value, which may be secret."""

    HIDDEN = ("value", "text")

    value: Any
    origin: str  #: a variable, or a file and its key
    from_file: bool
    text: str  #: as it is written there


class HelpFormatter(argparse.HelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """``-u, --user-count COUNT``, as in Python 3.13, without a COUNT after each spelling."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


class Parser(argparse.ArgumentParser):
    """Exits with 2 and a short message that never repeats a value, which may be a password.

    Long options may be abbreviated if that is unambiguous, as in ssbench 0.3.9. argparse's own
    ``allow_abbrev`` would show an ambiguous ``--os-p=secret`` in full, so this class expands them.

    ``-h`` prints ``briefs`` and examples, in one screen; ``--help-all`` is argparse's help.

    :param summary: a line for the short help, instead of the description.
    :param stray: hint for unexpected positional arguments.
    :param examples: command lines for the short help.
    """

    def __init__(
        self,
        *args: Any,
        summary: str = "",
        stray: str = "",
        examples: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **{"formatter_class": HelpFormatter, "add_help": False, **kwargs})
        self.allow_abbrev = False
        self._stray = stray
        self.summary = summary or self.description or ""
        self.examples = examples
        self.rows: list[Option] = []
        self.site: dict[str, SiteValue] = {}
        self._texts: dict[str, list[str]] = {}  # by name, of the arguments of this command line
        self._words: Sequence[str] = ()  # being parsed
        self.synopsis: list[str] = []  #: what must be given, for the short help
        self.briefs: list[tuple[str, str]] = []  #: name and text, for the short help
        self.add_argument(
            "-h", "--help", action=_ShortHelp, nargs=0, default=argparse.SUPPRESS,
            help="show the options used most, and exit",
        )  # fmt: skip
        self.add_argument(
            "--help-all", action="help", default=argparse.SUPPRESS,
            help="show all options, and exit",
        )  # fmt: skip

    def format_short_help(self) -> str:
        """At most 24 lines of 80 columns, as every command has few briefs."""
        kind = "commands" if self._subparsers else "options"
        width = max((len(name) for name, _ in self.briefs), default=0)
        letters = [each for each in LETTERS if any(n.startswith(each) for n, _ in self.briefs)]
        elsewhere = (
            f"{' and '.join(letters)}: other options in other commands, see --help-all"
            if letters
            else ""
        )
        lines = [
            " ".join(["usage:", self.prog, *self.synopsis, "[options]"]),
            "",
            *wrapped(self.summary, 79),
            "",
            *([f"{kind} used most:"] if self.briefs else []),
            *(f"  {name:<{width}}  {text}" for name, text in self.briefs),
            *(["", "examples:"] if self.examples else []),
            *(f"  {example}" for example in self.examples),
            elsewhere if self.briefs or self.examples else None,
            f"All {kind}: {self.prog} --help-all",
        ]
        return "".join(f"{line}\n" for line in lines if line is not None)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As argparse's, but unknown arguments are an error of this parser.

        The main parser calls this on a command's parser, and would otherwise report the command's
        errors as its own.
        """
        words = self._expand_all(sys.argv[1:] if args is None else args)
        if SHOW_CONFIG in words:
            self._require_nothing()
        self._texts.clear()
        self._words = words
        found, left = super().parse_known_args(words, namespace)
        if left:
            self.error(self._unexpected(left))
        self._words = ()
        if self._takes_options:
            found.words = words
        self._add_defaults(found)
        return found, left

    @property
    def _bare(self) -> list[str]:
        """The spellings of the option that may be left out."""
        return [flag for row in self.rows if row.bare for flag in (*row.flags, *row.aliases)]

    @property
    def _takes_options(self) -> set[str]:
        """The options whose value is options."""
        return {flag for row in self.rows if row.type is options_text for flag in row.flags}

    def _require_nothing(self) -> None:
        for action in self._actions:
            action.required = False
        for group in self._mutually_exclusive_groups:
            group.required = False

    def _unexpected(self, left: Sequence[str]) -> str:
        """An error with a hint. No word is shown: it may be a password."""
        many = f"{len(left)} unexpected argument{'s' if len(left) > 1 else ''}"
        taken = [row.metavar or row.name for row in self.rows if not row.flags]
        if taken and not self._stray:
            many += f" behind {' '.join(taken)}"
        if self._bare and any(map(_names_scenario, left)):
            return f"{many}; give one scenario"
        if self._stray and not _are_given(self._bare, self._words):
            return f"{many}; {self._stray}"
        before = dict(pairwise(reversed(self._words))).get(left[0], "")
        action = self._option_string_actions.get(before)
        return f"{many}; {before} takes no value" if action and action.nargs == 0 else many

    def _add_defaults(self, found: argparse.Namespace) -> None:
        """Add the defaults of what was not given, those of the site first.

        ``rows`` becomes the options of the command, ``given`` the names that were given, each with
        its value as it was written, and ``site`` the site's values that count.
        """
        given = {}
        for row in self.rows:
            if row.name in found:
                texts = self._texts.get(row.name) or [str(getattr(found, row.name))]
                text = ", ".join(texts) if row.repeat else texts[-1]
                given[row.name] = "" if row.secret else text
        self.check_repeated(given)
        groups = {row.exclusive for row in self.rows if row.name in given} - {""}
        void = {row.name for row in self.rows if row.exclusive in groups}
        site = {name: value for name, value in self.site.items() if name not in given.keys() | void}
        for row in self.rows:
            if row.name not in found and row.default is not argparse.SUPPRESS:
                value = row.default
                if row.name in site and not row.of_store:
                    value = site[row.name].value
                elif isinstance(value, str):
                    value = row.value(value)
                setattr(found, row.name, value)
        try:
            check_needs(
                self.rows,
                given,
                lambda row: (
                    getattr(found, row.name, None) or any(map(os.environ.get, row.variables))
                ),
            )
        except UsageError as error:
            self.error(str(error))
        found.rows = [*getattr(found, "rows", ()), *self.rows]
        found.given = given | getattr(found, "given", {})
        found.site = {**getattr(found, "site", {}), **site}

    def check_repeated(self, given: Collection[str]) -> None:
        """Name each option that takes one value and was given several: the last counts. Two
        scenarios are an error, as they are without ``-f``."""
        for row in {row.name: row for row in self.rows if row.name in given}.values():
            texts = self._texts.get(row.name, [])
            if row.repeat or len(set(texts)) < 2:
                continue
            if row.bare:
                self.error(f"{row.flags[0]}: {' and '.join(texts)}: give one scenario")
            tell(f"Warning: {row.flags[-1]} is given more than once: the last value counts")

    def _get_value(self, action: argparse.Action, text: str) -> Any:
        if text is argparse.SUPPRESS:  # a positional argument that was not given
            return text
        self._texts.setdefault(action.dest, []).append(text)
        try:
            return super()._get_value(action, text)
        except UsageError as error:
            raise argparse.ArgumentError(action, str(error)) from error

    def _print_message(self, message: str, file: Any = None) -> None:
        if message and file is not sys.stderr:
            write_output([message])
            check_output()

    def error(self, message: str) -> NoReturn:
        words, self._words = self._words, ()
        if words and "required" in message:  # what was given in the wrong place says more
            self._require_nothing()
            _, left = super().parse_known_args(words)
            message = self._unexpected(left) if left else message
        message = _VALUE_OF_SWITCH.sub("takes no value", message)
        tell(f"{self.prog}: {message}\n(see {self.prog} -h)")
        sys.exit(2)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # argparse's own text repeats the value, which may be the password of a misplaced -K.
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        near = [choice for choice in choices if value and choice.startswith(str(value))]
        near = near or [_OTHER_COMMANDS.get(str(value), "")] * (str(value) in _OTHER_COMMANDS)
        near = near or close_matches(str(value), choices)
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        raise argparse.ArgumentError(
            action, f"invalid choice; {meant}choose from {', '.join(choices)}"
        )

    def _expand_all(self, words: Sequence[str]) -> list[str]:
        """The arguments, with abbreviated options expanded, and the flag that may be left out.

        Unknown options are reported here, before argparse complains about a missing ``-f`` when
        ``--scenariofile`` was given.
        """
        found: list[str] = []
        unknown: list[str] = []
        is_value = False  # of the option before it
        for index, word in enumerate(words):
            if found and found[-1] in self._takes_options:  # argparse would take it as an option
                found[-1] += f"={word}"
                continue
            is_option = word.startswith("-") and word != "-"
            if word == "--" or (self._subparsers and not is_option):
                found += words[index:]  # the rest are positional arguments, or a command's
                break
            if self._bare and not (is_option or is_value or _are_given(self._bare, found)):
                found += [self._bare[0]] * _names_scenario(word)
            found.append(self._expand(word, unknown))
            action = self._option_string_actions.get(found[-1])
            is_value = is_option and action is not None and action.nargs != 0
            self._check_login_user([*found[-1:], *words[index + 1 : index + 2]])
        if unknown:
            self.error(f"unknown option: {', '.join(unknown)}{self._suggestion(unknown)}")
        return found

    def _check_login_user(self, words: Sequence[str]) -> None:
        """Reject ``--user 20`` as ambiguous where ``--user-count`` exists."""
        name, equals, value = words[0].partition("=")
        value = value if equals else words[-1]
        if name == "--user" and value.isdecimal() and "--user-count" in self._option_string_actions:
            self.error(
                f"--user: {value} is ambiguous: for concurrent users give -u {value} or "
                f"--user-count {value}, for the login's user name -U {value}"
            )

    def _expand(self, word: str, unknown: list[str]) -> str:
        """One argument, expanded; an unknown option's name is appended to ``unknown``."""
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
        near = self._completions(name)
        if len(near) > 1:
            self.error(f"{name} is ambiguous: it could be {' or '.join(near)}")
        if not near:
            unknown.append(name)
        return f"{near[0]}{equals}{value}" if near else word

    def _completions(self, name: str) -> list[str]:
        """Long options that begin with this, one spelling of each."""
        found: dict[str, str] = {}
        for option, dest in self._visible_options().items():
            if option.startswith(name):
                found.setdefault(dest, option)
        return list(found.values())

    def _visible_options(self) -> dict[str, str]:
        """Long options that the help shows, with their other spellings -> what each sets."""
        shown = {a.dest for a in self._actions if a.help != argparse.SUPPRESS}
        return {
            option: action.dest
            for option, action in self._option_string_actions.items()
            if option.startswith("--") and action.dest in shown
        }

    def _suggestion(self, unknown: Sequence[str]) -> str:
        """``; did you mean ...?`` if there are close matches; else a hint, or nothing."""
        # Without their dashes, which would make all options similar.
        names = [option[2:] for option in self._visible_options() if "_" not in option]
        if _IN_SCENARIO & {option.strip("-") for option in unknown} and "scenario" in names:
            return "; the scenario has the sizes and the numbers of objects: see list-scenarios"
        words: dict[str, None] = {}
        for option in unknown:
            name = option.strip("-").replace("_", "-")
            known = [each for each in _OTHER_NAMES.get(name, ()) if each in names]
            words |= dict.fromkeys(f"--{each}" for each in known or close_matches(name, names, 2))
        if words:
            return f"; did you mean {' or '.join(words)}?"
        return "; give a command's options after its name" if self._subparsers else ""


#: Options of other tools (warp, elbencho, k6, Locust, wrk and the like) -> ours, without dashes;
#: those that the command has are named.
_OTHER_NAMES = {
    "access-key": ("s3-access-key",),
    "autoterm": ("auto-stop",),
    "autoterm-dur": ("auto-stop-window",),
    "autoterm-pct": ("auto-stop-tolerance",),
    "benchdata": ("stats-file",),
    "clients": ("users", "concurrency"),
    "concurrency": ("users",),
    "concurrent": ("users", "concurrency"),
    "connections": ("users", "concurrency"),
    "csvfile": ("csv",),
    "endpoint": ("s3-endpoint",),
    "host": ("s3-endpoint", "master"),
    "hosts": ("ssh-workers",),
    "iterations": ("op-count",),
    "jobs": ("users", "concurrency"),
    "jsonfile": ("json",),
    "keep-data": ("keep-objects",),
    "no-cleanup": ("keep-objects",),
    "noclear": ("keep-objects",),
    "numjobs": ("users", "concurrency"),
    "ops": ("op-count",),
    "out": ("stats-file",),
    "output": ("stats-file",),
    "qps": ("rate",),
    "requests": ("op-count",),
    "resfile": ("stats-file",),
    "rps": ("rate",),
    "run-time": ("duration", "time"),
    "runtime": ("duration", "time"),
    "s3endpoints": ("s3-endpoint",),
    "s3key": ("s3-access-key",),
    "s3secret": ("s3-secret-key",),
    "secret-key": ("s3-secret-key",),
    "step-duration": ("step-seconds",),
    "thread": ("users", "concurrency"),
    "threads": ("users", "concurrency"),
    "time": ("duration", "step-seconds"),
    "timelimit": ("duration", "time"),
    "timeout": ("operation-timeout",),
    "users": ("concurrency",),
    "vu": ("users", "concurrency"),
    "vus": ("users", "concurrency"),
    "warp-client": ("ssh-workers",),
}
#: Commands of warp, elbencho, COSBench and k6 -> ours.
_OTHER_COMMANDS = {
    "analyze": "report-scenario", "analyse": "report-scenario", "cmp": "compare",
    "client": "the program ssbench-worker", "cleanup": "cleanup-containers",
    "mixed": "run-scenario", "stat": "run-scenario", "submit": "run-scenario",
    "sweep": "run-scenario --sweep", "worker": "the program ssbench-worker",
}  # fmt: skip
_IN_SCENARIO = {
    "dirs", "files", "num-objects", "obj.size", "object-count", "object-size", "objects", "size",
}  # fmt: skip


def _names_scenario(word: str) -> bool:
    """Whether a word names a file or a canned scenario, perhaps misspelt, and so is no password."""
    from ssbench.runner.config import CANNED, SUFFIX  # few commands need it

    is_name = word == "-" or word.endswith((SUFFIX, ".json")) or bool(close_matches(word, CANNED))
    return is_name or os.path.exists(word)


def _are_given(flags: Sequence[str], words: Sequence[str]) -> bool:
    """Whether an option is among the words, also as ``--scenario=FILE`` or ``-fFILE``."""
    return any(word.partition("=")[0] in flags or word[:2] in flags for word in words)


class _ShortHelp(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        assert isinstance(parser, Parser)  # nosec B101 # only that adds this action
        parser._print_message(parser.format_short_help(), sys.stdout)
        parser.exit()


def add_options(
    parser: Parser,
    rows: Sequence[Option],
    descriptions: Mapping[str, str] = {},
    site: Mapping[str, SiteValue] = {},
) -> None:
    """Add options, in the groups that the rows name.

    :param descriptions: title -> text of groups that have one.
    :param site: name of an option -> the site's default.
    """
    parser.rows += rows
    parser.site |= site
    satisfied = {row.exclusive for row in rows if row.name in site}
    groups: dict[str, argparse._ActionsContainer] = {"": parser}
    exclusive: dict[str, argparse._ActionsContainer] = {}
    for row in rows:
        if row.group not in groups:
            groups[row.group] = parser.add_argument_group(row.group, descriptions.get(row.group))
        target = groups[row.group]
        is_first = row.exclusive not in exclusive
        if group := row.group_of_one:
            if is_first:
                exclusive[group] = target.add_mutually_exclusive_group(
                    required=row.required and group not in satisfied
                )
            target = exclusive[group]
        _add_option(target, row, is_set=row.name in site)
        if row.brief:
            parser.briefs.append((_short_name(row), row.brief))
        if row.required and is_first:
            value = f"{row.metavar or row.name}{'...' if row.repeat and not row.flags else ''}"
            parser.synopsis.append(" ".join([*row.flags[:1], value]))


def _short_name(row: Option) -> str:
    """``-u, --users COUNT``: the first and the last spelling."""
    flags = ", ".join(dict.fromkeys([*row.flags[:1], *row.flags[-1:]]))
    value = "" if row.type is bool else row.metavar or "|".join(row.choices or (row.name,))
    return f"{flags} {value}".strip()


def _add_option(target: argparse._ActionsContainer, row: Option, *, is_set: bool) -> None:
    settings: dict[str, Any] = {"default": argparse.SUPPRESS}  # _add_defaults adds it
    if row.type is bool:
        settings |= {"action": "store_const", "const": row.const}
    else:
        settings |= {"type": row.convert, "metavar": row.metavar, "choices": row.choices}
        if row.const is not True:
            settings |= {"nargs": "?", "const": row.const}
    text = "; ".join([row.help, *(LETTERS[flag] for flag in row.flags if flag in LETTERS)])
    text = text.replace("%", "%%")
    if row.variables:
        text += f" [env {' or '.join(row.variables)}]"
    if row.default not in (None, False, (), argparse.SUPPRESS) and "default" not in text:
        text += f" [default: {row.default:{'g' if isinstance(row.default, float) else ''}}]"
    if not row.flags:
        nargs: str | None = "+" if row.repeat else None
        if row.exclusive or not row.required:
            nargs = "*" if row.repeat else "?"
        target.add_argument(row.name, nargs=nargs, help=text, **settings)
        return
    if row.repeat:
        settings["action"] = "append"
    if row.required and not row.exclusive and not is_set:
        settings["required"] = True
    shown = text if row.help else argparse.SUPPRESS
    target.add_argument(*row.flags, dest=row.name, help=shown, **settings)
    if row.aliases:
        settings.pop("required", None)
        target.add_argument(*row.aliases, dest=row.name, help=argparse.SUPPRESS, **settings)


_NUMBER = re.compile(r"-\d")
#: argparse's text for ``--noop=VALUE`` and ``-vVALUE``.
_VALUE_OF_SWITCH = re.compile(r"ignored explicit argument .*", re.DOTALL)


TRUE = ("1", "t", "true")
_LONGEST_NAME = 32


def own_words(
    words: Sequence[str], known: Collection[str], switches: Collection[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """The options of ssbench among the leading options, and the other words.

    Those have two dashes, as ``--name`` or ``--name=value``. Go's package flag takes two dashes as
    one, so what it knows is its own.
    """
    own: list[str] = []
    rest: list[str] = []
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at].strip("-"):
        name, equals, _ = words[at].lstrip("-").partition("=")
        if words[at].startswith("--") and name not in known:
            own.append(words[at])
            at += 1
        else:
            end = at + (1 if equals or name in switches else 2)
            rest += words[at:end]
            at = end
    return own, [*rest, *words[at:]]


def parse_flags(
    words: Sequence[str], known: Collection[str], switches: Collection[str], command: str
) -> tuple[dict[str, list[str]], Sequence[str]]:
    """Options as Go's package flag has them, each with its values in their order, and the words
    behind them.

    :raises UsageError: an option is unknown, or has no value.
    """
    found: dict[str, list[str]] = {}
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        if words[at] == "--":
            at += 1
            break
        name, equals, value = words[at].lstrip("-").partition("=")
        if name not in known:
            is_secret = name[:1] in ("K", "P")  # -Ksecret
            is_name = len(name) <= _LONGEST_NAME and name.isprintable() and not is_secret
            shown = name if is_name else "..."
            options = ", ".join(f"-{each}" for each in known)
            raise UsageError(f"{command}: unknown option -{shown}; it has {options}")
        at += 1
        if not equals and name in switches:
            value = "true"
        elif not equals:
            if at == len(words):
                raise UsageError(f"{command}: -{name} has no value")
            value = words[at]
            at += 1
        found.setdefault(name, []).append(value)
    return found, words[at:]


def check_values(
    given: Mapping[str, Sequence[str]],
    flags: Mapping[str, str],
    rows: Sequence[Option],
    command: str,
) -> None:
    """Check the last value of each option as the option of ours that it becomes does.

    :param flags: option -> flag of one of the rows; "": none.
    :raises UsageError: one is not valid; the message has the name that the user gave.
    """
    for name, flag in flags.items():
        if flag and name in given:
            row = next(each for each in rows if flag in each.flags)
            try:
                row.value(given[name][-1])
            except UsageError as error:
                raise UsageError(f"{command}: -{name}: {error}") from error
