"""Defaults of a site: ``SSBENCH_*`` variables, and a TOML file of the user's.

The command line overrides variables, variables override the file, and the file overrides the
built-in defaults. A key of the file is the long name of an option. At the top level it applies to
each command that has the option; in a table named after a command, to that command.

platformdirs was tried for the file's folder, the only one of the user's that ssbench looks for, and
kept out: it replaces three lines, takes 6 ms of each start, and reads the process's environment
instead of the given one. Stat files have been in /tmp/ssbench-results since ssbench 0.3.9.
"""

from __future__ import annotations

import argparse
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from ssbench.cli.console import MASK
from ssbench.cli.parser import SiteValue
from ssbench.core.errors import UsageError
from ssbench.core.hiding import Hiding
from ssbench.core.option import VARIABLE_PREFIX, Option
from ssbench.core.scenario.syntax import TomlError, parse_toml
from ssbench.host.files import read_text
from ssbench.storage.options import variables_of
from ssbench.storage.registry import ROWS, options_of

CONFIG_VARIABLE = "SSBENCH_CONFIG"
_FLAG = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")


class SiteDefaults(Hiding, frozen=True):
    """Variables and file as they are; ``values`` converts those that a command uses."""

    HIDDEN = ("environ", "content")

    environ: Mapping[str, str] = {}
    path: str = ""  #: "" if there is no file
    mode: int = 0  #: permissions of the file
    content: Mapping[str, Any] = {}

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> SiteDefaults:
        """Read the file that SSBENCH_CONFIG names, else ssbench/config.toml in XDG_CONFIG_HOME.

        :raises UsageError: it can't be read, or is not TOML.
        """
        named = environ.get(CONFIG_VARIABLE)
        folder = environ.get("XDG_CONFIG_HOME", "")
        if not os.path.isabs(folder):  # XDG's specification: ignore a relative one
            folder = os.path.expanduser("~/.config")
        path = os.path.join(folder, "ssbench", "config.toml") if named is None else named
        if not path or (named is None and not os.path.lexists(path)):
            return cls(environ)
        text = read_text(path)
        try:
            return cls(environ, path, stat.S_IMODE(os.stat(path).st_mode), parse_toml(text))
        except OSError as error:
            raise UsageError(f"{path}: can't be read: {error.strerror}") from error
        except TomlError as error:
            raise UsageError(f"{path}: is not valid TOML: {error}") from error

    def check(self, tables: Mapping[str, Sequence[Option]], only: str = "") -> None:
        """Check each key of the file, also of commands that do not run.

        :param tables: command -> its options, which are taken only if they are needed. ``bench``
            stands for all commands ``bench ...``.
        :param only: check this table only; "": all.
        :raises UsageError: a line for each table or key that is unknown, for the command line only,
            or secret in a file that others can read.
        """
        faults: list[str] = []
        for key, value in self.content.items():
            if only and key != only:
                continue
            if not isinstance(value, dict):
                faults += self._faults(key, key, [*tables], tables)
                continue
            names = [name for name in tables if name == key or name.startswith(f"{key} ")]
            if not names:
                near = _near(key, list(tables))
                faults.append(f"[{key}]: no such command{near}")
            for name in value if names else ():
                faults += self._faults(f"[{key}] {name}", name, names, tables)
        if faults:
            raise UsageError("\n".join(f"{self.path}: {fault}" for fault in faults))

    def misspelt_variables(self, tables: Mapping[str, Sequence[Option]]) -> Iterator[str]:
        """A line for each variable that resembles one of ours, and is none."""
        unknown = {name for name in self.environ if name.startswith(VARIABLE_PREFIX)}
        unknown.discard(CONFIG_VARIABLE)
        known, seen = {CONFIG_VARIABLE}, set[int]()
        of_stores = map(options_of, ROWS.values())  # some have no flag
        for rows in chain(of_stores, tables.values()):
            if not unknown:
                return
            new = [row for row in rows if id(row) not in seen]  # commands share most
            seen.update(map(id, new))
            known.update(name for row in new for name in variables_of(row))
            unknown -= known
        for name in sorted(unknown):
            if near := _near(name, sorted(known), 0.85):
                yield f"{name}: no such variable{near}"

    def values(self, command: str, rows: Sequence[Option]) -> dict[str, SiteValue]:
        """Name of an option -> the default that this site gives it.

        An option has none if a higher level sets one that excludes it (``json`` and ``csv``).

        :raises UsageError: a value that is not valid, or two that exclude each other.
        """
        found: dict[str, SiteValue] = {}
        for number, level in enumerate(self._levels(command, rows)):
            taken = {row.exclusive for row in rows if row.name in found} - {""}
            new: dict[str, SiteValue] = {}
            places: dict[str, str] = {}  # by the group that excludes others
            for row, raw, place in level:
                if row.name in found or row.exclusive in taken:
                    continue
                value = row.read(raw, place)
                if value in (False, row.default) and (row.type is bool or isinstance(raw, bool)):
                    new.setdefault(row.name, SiteValue(row.default, place, number > 0, "false"))
                    continue
                if (group := row.group_of_one) and places.setdefault(group, place) != place:
                    raise UsageError(f"{place}: excludes {places[group]}: give one of them")
                new[row.name] = SiteValue(value, place, number > 0, _written(raw))
            found |= new
        return found

    def _levels(
        self, command: str, rows: Sequence[Option]
    ) -> Iterator[list[tuple[Option, Any, str]]]:
        """Row, raw value and place of each value: variables, then tables, then the top level.

        Options of stores have no variables here: the store reads them.
        """
        variables = [
            (row, self.environ[name], name)
            for row in rows
            for name in reversed(dict.fromkeys((*row.variables, *row.site_variables)))
            if self.environ.get(name) and not row.of_store
        ]
        for row, _, place in variables:
            if row.command_line_only:
                raise UsageError(f"{place}: {row.flags[-1]} is for the command line only")
        yield variables
        for table in dict.fromkeys((command, command.partition(" ")[0], "")):
            content = self.content.get(table, {}) if table else self.content
            if isinstance(content, dict):
                prefix = f"[{table}] " if table else ""
                yield [
                    (row, value, f"{self.path}: {prefix}{key}")
                    for row in rows
                    for key, value in content.items()
                    if not isinstance(value, dict) and _plain(key) in row.keys
                ]

    def _faults(
        self, place: str, key: str, commands: Sequence[str], tables: Mapping[str, Sequence[Option]]
    ) -> Iterator[str]:
        rows = (row for name in commands for row in tables[name])
        found = next((row for row in rows if _plain(key) in row.keys), None)
        if found is None:
            all_rows = [row for name in commands for row in tables[name]]
            near = _near(_plain(key), [each for row in all_rows if row.help for each in row.keys])
            yield f"{place}: no such option{near}"
        elif found.command_line_only:
            yield f"{place}: is for the command line only"
        elif found.secret and self.mode & 0o077:
            yield (
                f"{place}: is secret, and others may read this file (mode {self.mode:04o}): "
                f"chmod 600 {self.path}"
            )


def describe(
    ns: argparse.Namespace, rows: Sequence[Option], environ: Mapping[str, str]
) -> Iterator[str]:
    """A line for each option that has another value than the built-in one: value and origin.

    Secrets are masked. So are values of ``--storage-option`` for a driver of the user's own, whose
    secret keys are not known here.
    """
    public = {each.name for each in rows if each.of_store and not each.secret}
    public |= {f"{each.name}_file" for each in rows if each.of_store and each.secret}
    for row in {row.name: row for row in rows if row.flags and row.name != "show_config"}.values():
        origin = _origin(row, ns, environ)
        if row.name in ns.given:
            value, origin = ns.given[row.name], "command line"
        elif not origin:
            continue
        elif origin in environ:
            value = environ[origin]
        else:
            value = ns.site[row.name].text
        if row.secret:
            value = MASK
        elif row.name == "storage_options":
            pairs = [(each, each.partition("=")[0]) for each in ns.storage_options]
            value = ", ".join(each if name in public else f"{name}={MASK}" for each, name in pairs)
        yield f"{row.keys[0]} = {value}  ({origin})"
    yield "All other options have their defaults."


def located(message: str, ns: argparse.Namespace, environ: Mapping[str, str]) -> str:
    """An error with the places of the values that it names.

    An option that the command line did not give is one that nobody would look for: where the error
    begins with it, the variable, or the file and its key, is the place; elsewhere it is added.
    """
    by_flag = {flag: row for row in ns.rows for flag in (*row.flags, *row.aliases)}
    lines = []
    for line in message.split("\n"):
        found = [flag for flag in _FLAG.findall(line) if flag in by_flag]
        origins = {flag: _origin(by_flag[flag], ns, environ) for flag in dict.fromkeys(found)}
        first = found[0] if found and line.startswith(found[0]) else ""
        if origins.get(first):
            line = origins.pop(first) + line.removeprefix(first)
        sets = [f"{flag} is set by {origin}" for flag, origin in origins.items() if origin]
        lines.append(f"{line} ({', '.join(sets)})" if sets else line)
    return "\n".join(lines)


def _origin(row: Option, ns: argparse.Namespace, environ: Mapping[str, str]) -> str:
    """The variable, or the file and its key, that sets an option; "" if none does, or it was
    given."""
    if row.name in ns.given:
        return ""
    variable = next(filter(environ.get, variables_of(row)), "") if row.of_store else ""
    return variable or (ns.site[row.name].origin if row.name in ns.site else "")


def _written(raw: Any) -> str:
    """A value of TOML or a variable as the command line would have it."""
    if isinstance(raw, list):
        return ", ".join(map(_written, raw))
    return str(raw).lower() if isinstance(raw, bool) else str(raw)


def _plain(key: str) -> str:
    return key.replace("_", "-")


def _near(word: str, known: Sequence[str], least: float = 0.6) -> str:
    from difflib import get_close_matches  # only after a mistake

    near = get_close_matches(word[:64], list(dict.fromkeys(known)), 2, least)
    return f"; did you mean {' or '.join(near)}?" if near else ""
