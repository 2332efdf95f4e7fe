"""Reports as Markdown, with the tables of GitHub and GitLab, for issues, wikis and chats."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ssbench.core.text import printable
from ssbench.report.model import Level, Report
from ssbench.report.tables import facts_of, notes_of, shown, tables_of, title_of

#: What has a meaning anywhere in a line; and only at its beginning.
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~&$])")
_LIST_MARK = re.compile(r"^(\d*)([-+.)])(?=\s|$)")

_PREFIXES = {Level.NOTE: "Note: ", Level.WARNING: "**Warning:** ", Level.SEVERE: "**WARNING:** "}


def render_markdown(report: Report) -> str:
    """The summary, notes, tables and facts; text from outside is never markup."""
    title, lines = title_of(report)
    blocks = [
        [f"# {_escaped(title)}"],
        ["  \n".join(map(_escaped, lines))],
        [f"- **{_escaped(row['topic'])}:** {_escaped(row['text'])}"
         for row in report["summary"].tables[0].rows],
        [f"- {_PREFIXES.get(level, '')}{_escaped(text)}" for level, text in notes_of(report)],
    ]  # fmt: skip
    for table in map(shown, filter(lambda table: table.rows, tables_of(report))):
        blocks.append([f"## {_escaped(table.title)}"])
        rule = f"|{'|'.join('---:' if each else '---' for each in table.numeric)}|"
        blocks.append([_line(table.headings), rule, *map(_line, table.rows)])
        if table.more:
            blocks.append([f"{table.more:,} more rows are left out; `--json` has them."])
    facts = [f"- **{_escaped(topic)}:** {_escaped(text)}" for topic, text in facts_of(report)]
    if facts:
        blocks += [["## Scenario and environment"], facts]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_escaped, cells))} |"


def _escaped(text: str) -> str:
    return _LIST_MARK.sub(r"\1\\\2", _MARKUP.sub(r"\\\1", printable(text)))
