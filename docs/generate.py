"""Write the parts of docs/ that are made from the code: ``make docs`` runs this.

Such a part stands between two comments, which readers of the page don't see::

    .. made by docs/generate.py: options run-scenario

    .. made until here

The text behind the colon is a function below and its arguments. ``--check`` writes nothing, and
exits with 1 if a page is not what the code says; ``make check`` does so.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import structs

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from docs import messages as index  # noqa: E402
from ssbench.cli.commands import COMMANDS, master_parser  # noqa: E402
from ssbench.cli.worker_options import worker_parser  # noqa: E402
from ssbench.core.errors import GRAVITY, ExitStatus, ScenarioError  # noqa: E402
from ssbench.core.model import (  # noqa: E402
    Group,
    LargeObject,
    LargeRead,
    ObjectLock,
    Phase,
    SizeClass,
    Stage,
)
from ssbench.core.operations import Body, of_phase  # noqa: E402
from ssbench.core.option import Option  # noqa: E402
from ssbench.core.scenario.checks import Key  # noqa: E402
from ssbench.core.scenario.parts import (  # noqa: E402
    GROUP_KEYS,
    LARGE_KEYS,
    LOCK_KEYS,
    READ_KEYS,
    SIZE_KEYS,
    STAGE_KEYS,
)
from ssbench.core.scenario.scenario import (  # noqa: E402
    KEYS,
    Scenario,
    option_places,
    parameter_keys,
)
from ssbench.core.text import bytes_text  # noqa: E402
from ssbench.runner.api import settings_shown  # noqa: E402
from ssbench.runner.config import list_canned  # noqa: E402
from ssbench.storage.registry import ROWS, load, options_of  # noqa: E402
from ssbench.storage.swift.options import OPTIONS as SWIFT_OPTIONS  # noqa: E402

WIDTH = 100
#: Option -> where a page says more of it, seen from docs/reference.
SEE = {
    "--abort-on-threshold": ("../how-to/comparing.rst",),
    "--dstat": ("../how-to/network.rst",),
    "--existing": ("options.rst#reading-your-own-objects-existing",),
    "--filename": ("scenarios.rst",),
    "--html": ("report.rst#a-page",),
    "--junit": ("../how-to/ci.rst",),
    "--influx": ("programs.rst#influxdb",),
    "--otlp": ("programs.rst#opentelemetry",),
    "--live-json": ("programs.rst#lines-of-json",),
    "--metrics-port": ("programs.rst#prometheus-and-grafana",),
    "--noop": ("../how-to/scaling.rst",),
    "--operations": ("programs.rst#operations",),
    "--profile": ("options.rst#profiles",),
    "--slo": ("../how-to/series.rst",),
    "--ssh-workers": ("../how-to/starting-workers.rst#ssh",),
    "--storage": ("stores.rst",),
    "--sweep": ("../how-to/series.rst",),
    "--threshold": ("../how-to/comparing.rst#thresholds-threshold",),
    "--verify": ("options.rst#verifying-content-verify",),
    "--web": ("../how-to/watching.rst#in-a-browser",),
}
PART = re.compile(
    r"^\.\. made by docs/generate\.py: (?P<what>[^\n]*)\n.*?^\.\. made until here$",
    re.MULTILINE | re.DOTALL,
)
#: Sections of commands.rst with options of several commands -> whose options these are, and their
#: group there.
SHARED = {
    "All commands": ("run-scenario", "options"),
    "Transport": ("run-scenario", "workers"),
    "Store": ("run-scenario", "store"),
}
_SHARED_PREFIX = {"Transport": "--zmq-"}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A simple table of WIDTH columns, or more where the last, which wraps, would be narrow."""
    body = [list(row) for row in rows]
    widths = [max(len(row[at]) for row in [head, *body]) for at in range(len(head) - 1)]
    last = max(48, WIDTH - sum(widths) - 2 * len(widths))
    bar = "  ".join("=" * width for width in [*widths, last])
    lines = [bar, _line(head, widths), bar]
    for row in body:
        first, *more = textwrap.wrap(
            row[-1], last, break_long_words=False, break_on_hyphens=False
        ) or [""]
        lines.append(_line([*row[:-1], first], widths))
        lines += [_line(["" for _ in widths] + [each], widths) for each in more]
    return "\n".join([*lines, bar])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, [*widths, 0], strict=True))
    return "  ".join(padded).rstrip()


def list_table(head: Sequence[str], widths: Sequence[int], rows: Iterable[Sequence[str]]) -> str:
    """A table whose cells wrap in every column.

    :param widths: of the columns, in relation to each other.
    """
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {' '.join(map(str, widths))}"]
    for row in [head, *rows]:
        lines.append("")
        for at, cell in enumerate(row):
            begin = "     - " if at else "   * - "
            lines.append(textwrap.fill(cell, WIDTH, initial_indent=begin, subsequent_indent=" " * 7,
                                       break_long_words=False, break_on_hyphens=False)
                         or begin.rstrip())  # fmt: skip
    return "\n".join(lines)


def literal(text: str) -> str:
    return f"``{text}``"


def sentence(text: str, values: Iterable[object] | None = ()) -> str:
    """A help text as markup, with options, variables and explained values as literals."""
    text = re.sub(r"([*`|\\])", r"\\\1", text)
    option = r"(?<![\w-])(--[a-z][\w-]*(?:=[\w.]*\w| [A-Z]+\b)?|-[A-Za-z](?![\w-]))"
    text = re.sub(option, r"``\1``", text)
    text = re.sub(r"\b([A-Z][A-Z0-9]+_[A-Z0-9_]+)\b(?!``)", r"``\1``", text)
    text = re.sub(r"(?<=\w)_(?=[\s,.;:)]|$)", r"\\_", text)
    text = text.replace(" ...", "...")  # three dots at the start of a line are markup
    for value in values or ():
        text = re.sub(rf"(?<![\w-]){re.escape(str(value))}(?=:)", f"``{value}``", text)
    return text[:1].upper() + text[1:]


@cache
def parsers() -> dict[str, argparse.ArgumentParser]:
    """Command -> parser; the worker's among them."""
    found = {}
    for name in COMMANDS:
        parser: argparse.ArgumentParser = master_parser()
        for word in name.split():
            parser = _subcommands(parser)[word]
        found[name] = parser
    return {**found, "ssbench-worker": worker_parser()}


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    (chosen,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    return dict(chosen.choices)


#: Flags, default, meaning.
Row = tuple[str, str, str]


@cache
def shown(command: str) -> dict[Row, str]:
    """Row of each option that the help shows -> the title of its group there."""
    parser, found = parsers()[command], {}
    for group in parser._action_groups:
        for action in group._group_actions:
            if action.help is not argparse.SUPPRESS:
                found[_row(parser, action)] = group.title or ""
    return found


def _row(parser: argparse.ArgumentParser, action: argparse.Action) -> Row:
    text = parser._get_formatter()._expand_help(action)
    default = ""
    told = re.search(r" ?\[default: ([^\]]*)\]", text)
    if told and len(told[1]) <= 12 and " " not in told[1]:
        text, default = text.replace(told[0], ""), told[1].removesuffix(".0")
        default = default if default[:1].isalnum() else literal(default)
    others = [
        literal(max(each.option_strings, key=len, default=str(each.metavar)))
        for group in parser._mutually_exclusive_groups
        if group.required and action in group._group_actions
        for each in group._group_actions
        if each is not action and each.help is not argparse.SUPPRESS
    ]
    if action.choices and any(str(each) not in text for each in action.choices):
        text += f": {' or '.join(map(str, action.choices))}"
    if action.required or (not action.option_strings and action.nargs is None):
        default = "required"
    names = list(action.option_strings) or [str(action.metavar or action.dest)]
    meaning = sentence(text, action.choices)
    if others:
        meaning += f"; this or {' or '.join(others)} is required"
    see = [f"`{Path(page).stem} <{page}>`__" for page in SEE.get(names[-1], ())]
    return ", ".join(map(literal, names)), default, ": see ".join([meaning, *see])


@cache
def _of_stores() -> frozenset[str]:
    """Flags of the options that authentication.rst and stores.rst describe."""
    rows = [option for row in ROWS.values() for option in options_of(row)]
    return frozenset(", ".join(map(literal, each.flags)) for each in rows)


@cache
def shared(title: str) -> tuple[Row, ...]:
    command, group = SHARED[title]
    prefix = _SHARED_PREFIX.get(title, "")
    return tuple(
        row
        for row, place in shown(command).items()
        if place == group and row[0].removeprefix("``").startswith(prefix)
        if row[0] not in _of_stores() and row[0] not in ("``--version``",)
    )


def options(*names: str) -> str:
    """The options of a command, or of several; those of ``SHARED`` and of run-scenario by name."""
    if names[0] == "shared":
        return table(("Option", "Default", "Meaning"), shared(" ".join(names[1:])))
    commands = [name.strip() for name in " ".join(names).split(",")]
    owners: dict[Row, list[str]] = {}
    for command in commands:
        for row in shown(command):
            owners.setdefault(row, []).append(command)
    common = [row for title in SHARED for row in shared(title)]
    reference = {} if commands == ["run-scenario"] else shown("run-scenario")
    own: list[Row] = []
    groups: dict[str, list[Row]] = {}
    for row, having in owners.items():
        if row[0] in _of_stores() or row in common or row in reference or "--version" in row[0]:
            continue
        only = ""
        if len(having) < len(commands):
            only = f" (only {', '.join(literal(each) for each in having)})"
        own.append((row[0], row[1], row[2] + only))
        groups.setdefault(shown(having[0])[row], []).append(own[-1])
    parts = []
    for title, rows in groups.items() if commands == ["run-scenario"] else [("", own)]:
        if title:
            parts.append(f"{title[:1].upper()}{title[1:]}:")
        if rows:
            parts.append(table(("Option", "Default", "Meaning"), rows))
    return "\n\n".join([*parts, *_borrowed(commands, owners, reference)])


def _borrowed(
    commands: Sequence[str], owners: dict[Row, list[str]], reference: Iterable[Row]
) -> list[str]:
    """Sentences on the options that other sections describe."""
    sections = [title for title in SHARED if set(shared(title)) <= owners.keys()]
    told = [row for title in sections for row in shared(title)]
    of_run = [row[0].split(", ")[-1] for row in reference if row in owners and row not in told
              and row[0] not in _of_stores()]  # fmt: skip
    parts = [f"`{title}`_" for title in sections if title != "All commands"]
    if any(row[0] in _of_stores() for row in owners):
        parts += ["`authentication <authentication.rst>`__", "the `stores <stores.rst>`__"]
    found = []
    subject = "These commands also take" if len(commands) > 1 else "Also takes"
    if parts:
        *most, last = parts
        found.append(f"{subject} the options of {', '.join(most)}{' and ' * bool(most)}{last}.")
    if of_run:
        found.append(f"{subject}, as `run-scenario`_: {', '.join(of_run)}.")
    return [textwrap.fill(each, WIDTH, break_long_words=False, break_on_hyphens=False)
            for each in found]  # fmt: skip


def commands() -> str:
    return table(
        ("Command", "What it does"),
        [(literal(name), sentence(command.summary)) for name, command in COMMANDS.items()],
    )


def store_options(store: str) -> str:
    """Options of a store, or those of the login with Swift."""
    rows = []
    for each in options_of(ROWS[store]):
        if not each.help or (store != "swift" and each in SWIFT_OPTIONS):
            continue
        text = sentence(re.sub(_DEFAULT, "", each.help), each.choices)
        variables = ", ".join(map(literal, each.variables))
        if variables:
            text += f" ({variables})"
        flags = ", ".join(map(literal, each.flags)) or literal(each.name)
        rows.append((flags, _default_of(each), text))
    return table(("Option", "Default", "Meaning (environment variables)"), rows)


_DEFAULT = r" ?\[default: ([^\s/\]]+)\]"  #: one word; others stay in the text


def _default_of(option: Option) -> str:
    told = re.search(_DEFAULT, option.help)
    return told[1] if told else "" if option.default in (None, False) else str(option.default)


#: Part of a scenario -> its keys, a scenario that has only this key there, where it is in errors,
#: and the type with the defaults.
_KEYS: dict[str, tuple[Mapping[str, Key], Callable[[str], object], str, Any]] = {
    "scenario": (KEYS, lambda key: {key: -1}, "", Scenario),
    "size": (SIZE_KEYS, lambda key: {"sizes": [{key: -1}]}, "sizes[0].", SizeClass),
    "stage": (STAGE_KEYS, lambda key: {"stages": [{key: -1}]}, "stages[0].", Stage),
    "group": (GROUP_KEYS, lambda key: {"groups": {"a": {key: -1}}}, "groups.a.", Group),
    "large-object": (LARGE_KEYS, lambda key: {"large_object": {key: -1}}, "large_object.",
                     LargeObject),
    "large-read": (READ_KEYS, lambda key: {"large_read": {key: -1}}, "large_read.", LargeRead),
    "object-lock": (LOCK_KEYS, lambda key: {"object_lock": {key: -1}}, "object_lock.", ObjectLock),
}  # fmt: skip


def scenario_keys(part: str) -> str:
    """The keys of a part of a scenario. Their values are what the error of a wrong one says."""
    keys, wrong, place, type_ = _KEYS[part]
    defaults = {each.name: each.default for each in structs.fields(type_)}
    places = option_places() if part == "scenario" else {}
    rows = []
    for name, key in sorted(keys.items(), key=lambda item: not item[1].required):
        default = key.default or ("required" if key.required else _json_text(defaults[name]))
        flag = places.get(name, "").partition(" ")[0]
        option = [literal(flag) if flag else ""] if places else []
        value = _accepted(wrong(name), f"{place}{name}")
        rows.append((literal(name), value, default, *option, key.meaning))
    head = ("Key", "Value", "Default", *(["Option"] if places else []), "Meaning")
    return list_table(head, (18, 20, 14, 10, 38) if places else (18, 22, 14, 46), rows)


def _json_text(default: object) -> str:
    if isinstance(default, float) and default.is_integer():
        default = int(default)
    return default if isinstance(default, str) else json.dumps(default)


def _accepted(scenario: object, place: str) -> str:
    """What the error at this place of a scenario says that would be right there."""
    try:
        Scenario.from_json(json.dumps(scenario), "f")
    except ScenarioError as error:
        (fault,) = (each for each in error.faults if each.startswith(f"f: {place}: "))
    text = fault.removeprefix(f"f: {place}: ").partition("; ")[2]
    text = re.sub(r", or a string with a unit, as in .*", ", or with a unit", text)
    text = re.sub(r"\b\d{5,}\b", lambda number: f"{int(number[0]):,}", text)
    return re.sub(r'\[?\{.*\}\]?|\[[\d, ]+\]|"[^"]*"', lambda json: literal(json[0]), text)


def operation_keys() -> str:
    """The keys of a scenario that operations have."""
    rules = parameter_keys()
    rows = []
    having: dict[str, list[str]] = {}
    for row in of_phase(Phase.RUN):
        for each in row.parameters:
            having.setdefault(each.key, []).append(literal(row.name.lower()))
            if len(having[each.key]) > 1:
                continue
            value = _accepted({each.key: -1}, each.key)
            value += f", at most {each.high} bytes" * isinstance(each.default, str)
            default = str(each.default) or "none"
            rows.append((each.key, value, default, rules[each.key].meaning))
    return list_table(
        ("Key", "Operations", "Value", "Default", "Meaning"), (16, 14, 22, 8, 40),
        [(literal(key), ", ".join(having[key]), *rest) for key, *rest in rows],
    )  # fmt: skip


def canned_scenarios() -> str:
    """The canned scenarios, with the mean size of all their initial objects."""
    rows = []
    for name, scenario in list_canned():
        mean = sum(s.initial_files * (s.size_min + s.size_max) / 2 for s in scenario.sizes)
        rows.append((literal(name), bytes_text(mean), scenario.summary()))
    return table(("Name", "Initial data", "Contents"), rows)


def exit_statuses() -> str:
    severe = [str(int(each)) for each in GRAVITY if each not in (ExitStatus.OK, ExitStatus.USAGE)]
    text = table(("Status", "Meaning"), [(str(int(each)), each.meaning) for each in ExitStatus])
    return f"{text}\n\nIf several statuses apply, the most severe counts: {', '.join(severe)}."


def messages(section: str) -> str:
    """The messages of a section of the index, with what to do."""
    found = ((literal(what), sentence(advice)) for what, advice in index.rows(section))
    return list_table(("Message", "Likely cause, and what to do"), (50, 50), found)


def operations() -> str:
    """The properties of each operation, and the stores that have it."""
    stores = {name: load(row.driver).operations for name, row in ROWS.items() if row.is_real}
    rows = []
    for each in of_phase(Phase.RUN):
        having = [name for name, there in stores.items() if int(each) in there]
        keys = ", ".join(literal(key.key) for key in each.parameters)
        content = "" if each.body is Body.NONE else each.body.value
        rows.append((each.name, str(int(each)), each.effect.value, each.target.value, content,
                     ", ".join(having), keys))  # fmt: skip
    head = ("Operation", "Number", "Effect", "Used", "Content", "Stores", "Keys of a scenario")
    return table(head, rows)


def json_keys(name: str) -> str:
    """The keys of one kind of JSON report, or of a part of one, with types and meanings."""
    schema = json.loads((HERE / "report-1.schema.json").read_text(encoding="utf-8"))["$defs"]
    if "enum" in schema[name]:
        return textwrap.fill(f"{_meaning_of(schema[name])}.", WIDTH, break_on_hyphens=False)
    rows = [
        (literal(key), _type_of(value), _meaning_of(value)) for key, value in _keys(schema[name])
    ]
    text = table(("Key", "Type", "Value"), rows)
    if "$ref" in schema[name]:
        text += f"\n\nIt also has the keys of `{_type_of(schema[name])}`_."
    return text


def _keys(schema: dict[str, Any], before: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each key with its schema; those of objects inside behind a dot, of arrays behind ``[]``."""
    for key, value in schema.get("properties", {}).items():
        yield f"{before}{key}", value
        yield from _keys(value, f"{before}{key}.")
        items = value.get("items", {})
        yield from _keys(items, f"{before}{key}[].")
        others = value.get("additionalProperties")
        if isinstance(others, dict):
            yield from _keys(others, f"{before}{key}.NAME.")


def _meaning_of(schema: dict[str, Any]) -> str:
    """With the values that it can have, where they are known."""
    values = ", ".join(literal(each) for each in schema.get("enum", ()) if each is not None)
    return sentence(schema.get("description", "")) + (f": {values}" if values else "")


def _type_of(schema: dict[str, Any]) -> str:
    """Such as ``integer or null``, ``array of error``."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(_type_of(each) for each in schema["anyOf"])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return "string or null" if None in schema["enum"] else "string"
    types = schema.get("type", "any")
    text = types if isinstance(types, str) else " or ".join(types)
    inside = schema.get("items") or schema.get("additionalProperties")
    if isinstance(inside, dict) and ("$ref" in inside or inside.get("type") != "object"):
        text = text.replace("array", f"array of {_type_of(inside)}")
        text = text.replace("object", f"object of {_type_of(inside)}")
    return text


def settings() -> str:
    """The settings of the Python API."""
    rows = []
    for name, (_, default, meaning) in settings_shown().items():
        shown = "" if default is None or default == () else literal(json.dumps(default))
        text, _, rest = meaning.partition(" [default: ")
        if rest:
            shown = shown if "(" in rest or " " not in rest else sentence(rest.rstrip("]"))
        rows.append((literal(name), shown, sentence(text)))
    return table(("Setting", "Default", "Meaning"), rows)


PAGES: dict[str, Callable[..., str]] = {
    "options": options,
    "scenario-keys": scenario_keys,
    "operation-keys": operation_keys,
    "canned-scenarios": canned_scenarios,
    "exit-statuses": exit_statuses,
    "messages": messages,
    "operations": operations,
    "json": json_keys,
    "commands": commands,
    "store-options": store_options,
    "settings": settings,
}


def made(path: Path) -> str:
    """The page with all its generated parts."""

    def part(match: re.Match[str]) -> str:
        name, *arguments = match["what"].split()
        text = PAGES[name](*arguments)
        head = match[0].partition("\n")[0]
        return f"{head}\n\n{text}\n\n.. made until here"

    return PART.sub(part, path.read_text(encoding="utf-8"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if stale")
    check = parser.parse_args().check
    stale = [path for path in sorted(HERE.rglob("*.rst")) if made(path) != path.read_text("utf-8")]
    for path in stale:
        if check:
            print(f"{path.relative_to(HERE.parent)} is not what the code says: run make docs")
        else:
            path.write_text(made(path), "utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
