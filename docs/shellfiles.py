"""Write the man pages and shell completions, which are made from the parsers.

``python docs/shellfiles.py FOLDER`` writes them to FOLDER/share; setup.py does so when ssbench is
built, and installs them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import shtab
from argparse_manpage.manpage import Manpage

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ssbench import __version__
from ssbench.cli.commands import GROUPS, master_parser
from ssbench.cli.parser import Parser
from ssbench.cli.worker_options import worker_parser

#: Shell -> folder below share, and name of the file for a program.
COMPLETIONS = {
    "bash": ("bash-completion/completions", "{}"),
    "zsh": ("zsh/site-functions", "_{}"),
    "fish": ("fish/vendor_completions.d", "{}.fish"),
}
_ABOUT = {
    "version": __version__,
    "project_name": "ssbench",
    "manual_title": "ssbench",
}


def parsers(parser: argparse.ArgumentParser) -> Iterator[Parser]:
    """The parser, and those of its commands."""
    assert isinstance(parser, Parser)
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in dict.fromkeys(action.choices.values()):
                yield from parsers(each)


def files() -> Iterator[tuple[str, str]]:
    """Path below share, and content, of each file."""
    for program in (master_parser(), worker_parser()):
        for shell, (folder, name) in COMPLETIONS.items():
            for each in parsers(program):
                _complete_files(each)
            yield f"{folder}/{name.format(program.prog)}", shtab.complete(program, shell=shell)
    # The page of a group of commands only names them: they have pages of their own.
    groups = {
        each.prog: each
        for words in ([], *([name] for name in GROUPS))
        for each in parsers(master_parser(words))
        if each._subparsers
    }
    for parser in (*parsers(master_parser()), worker_parser()):
        page = Manpage(groups.get(parser.prog, parser), {**_ABOUT, "description": parser.summary})
        page.prog = parser.prog.replace(" ", "-")
        yield f"man/man1/{page.prog}.1", str(page)


def _complete_files(parser: Parser) -> None:
    """Let the shell complete names of files for options that are some."""
    kinds = {row.name: row.file for row in parser.rows if row.file}
    for action in parser._actions:
        if action.dest in kinds and action.nargs != 0:
            action.complete = shtab.DIRECTORY if kinds[action.dest] == "d" else shtab.FILE


def main() -> None:
    """Write the files."""
    for path, content in files():
        place = Path(sys.argv[1]) / "share" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
