"""Man pages and shell completions: each option is in them, and they can be read."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from docs import shellfiles
from ssbench.cli.commands import master_parser
from ssbench.cli.worker_options import worker_parser

ROOT = Path(__file__).resolve().parent.parent
PARSERS = [
    parser
    for program in (master_parser(), worker_parser())
    for parser in shellfiles.parsers(program)
]


@cache
def pages() -> dict[str, str]:
    """Made by the first test that reads one."""
    return dict(shellfiles.files())


def flags(parser: argparse.ArgumentParser) -> set[str]:
    shown = [each for each in parser._actions if each.help is not argparse.SUPPRESS]
    return {flag for each in shown for flag in each.option_strings}


def page_of(parser: argparse.ArgumentParser) -> str:
    return f"man/man1/{parser.prog.replace(' ', '-')}.1"


def test_they_are_made_with_what_a_build_installs(tmp_path: Path) -> None:
    """``pip install .`` makes them in an environment that has none of ssbench's dependencies."""
    (line,) = re.findall(r"^requires = (.*)", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    there = {*re.findall(r'"([\w-]+)', line), "ssbench"}
    lacking = [name for name, of in packages_distributions().items() if not there & {*of}]
    without = "import sys; sys.modules |= dict.fromkeys(sys.argv[2:]);"  # an import of None fails
    code = f"{without} from docs import shellfiles; shellfiles.main()"
    subprocess.run([sys.executable, "-c", code, tmp_path, *lacking], cwd=ROOT, check=True)
    assert (tmp_path / "share/man/man1/ssbench-master.1").exists()


def test_each_command_has_a_man_page_with_each_option() -> None:
    for parser in PARSERS:
        words = re.split(r"\\f[BR]|[\s\[\],|]+", pages()[page_of(parser)].replace("\\-", "-"))
        assert flags(parser) - {"-h", "--help"} <= {*words}, parser.prog
        hidden = {flag for each in parser._actions for flag in each.option_strings} - flags(parser)
        assert not {*words} & hidden, parser.prog


@pytest.mark.parametrize("shell", shellfiles.COMPLETIONS)
@pytest.mark.parametrize("program", ["ssbench-master", "ssbench-worker"])
def test_completions_have_each_option(shell: str, program: str) -> None:
    folder, name = shellfiles.COMPLETIONS[shell]
    text = pages()[f"{folder}/{name.format(program)}"]
    for parser in PARSERS:
        if parser.prog.startswith(program):
            for flag in flags(parser):
                assert flag.lstrip("-") in text


def test_bash_completes_commands_options_and_files(tmp_path: Path) -> None:
    script = tmp_path / "completion"
    script.write_text(pages()["bash-completion/completions/ssbench-master"])
    (tmp_path / "a.stat.gz").touch()

    def complete(*words: str) -> set[str]:
        line = f"""\
source {script}
COMP_WORDS=(ssbench-master {" ".join(f"'{word}'" for word in words)})
COMP_CWORD={len(words)}
_shtab_ssbench_master
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
        ended = subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, cwd=tmp_path, check=True
        )
        return {word.strip() for word in ended.stdout.splitlines()}

    assert {"run-scenario", "report-scenario"} <= complete("r") | complete("ru") | complete("re")
    assert "--user-count" in complete("run-scenario", "--us")
    assert complete("report-scenario", "-s", "a.st") == {"a.stat.gz"}


@pytest.mark.program("man")
def test_man_renders_without_warnings(tmp_path: Path) -> None:
    files = []
    for parser in PARSERS:
        files.append(tmp_path / Path(page_of(parser)).name)
        files[-1].write_text(pages()[page_of(parser)])
    command = ["man", "--warnings", "-E", "UTF-8", "-l", *files]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env={
        "MANWIDTH": "100", "LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"})  # fmt: skip
    assert ended.stderr == ""
    assert [path.stem for path in files if f"{path.stem.upper()}(1)" not in ended.stdout] == []
