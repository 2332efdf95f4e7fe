"""``ssbench-master``: runs a command; reports errors, and sets the exit status.

Each command loads what it needs when it is called, so that a start is quick.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec

from ssbench.cli.commands import COMMANDS, master_parser
from ssbench.cli.console import (
    check_files,
    check_output,
    log_to_stderr,
    prepare_streams,
    say,
    tell,
)
from ssbench.cli.worker_options import WORKER, WORKER_TABLE
from ssbench.core.errors import ExitStatus, SsbenchError
from ssbench.core.option import Option

_FREE_SPACE = "free space where results and temporary files are put (-s, TMPDIR)"
#: System errors that are neither a user's mistake nor a defect (too few descriptors or processes,
#: too little memory, a full disk) -> what to do about them.
_SHORTAGES = {
    errno.EMFILE: "raise the limit of open files (ulimit -n), or use fewer users or workers here",
    errno.ENFILE: "raise the host's limit of open files (sysctl fs.file-max)",
    errno.EAGAIN: "raise the limit of processes (ulimit -u), or use fewer workers here",
    errno.ENOMEM: "use fewer users or workers on this host",
    errno.ENOSPC: _FREE_SPACE,
    errno.EDQUOT: _FREE_SPACE,
}


class _Tables(Mapping[str, Sequence[Option]]):
    """Command -> its options; a command's modules load when these are taken."""

    def __getitem__(self, name: str) -> Sequence[Option]:
        return COMMANDS[name].rows if name in COMMANDS else {WORKER_TABLE: WORKER}[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*COMMANDS, WORKER_TABLE))

    def __len__(self) -> int:
        return len(COMMANDS) + 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    prepare_streams()
    try:
        status = _command(sys.argv[1:] if arguments is None else arguments)
        check_output()
    except SsbenchError as error:
        tell(f"ssbench-master: {error}")
        return int(error.exit_status)
    except KeyboardInterrupt as error:
        tell(f"ssbench-master: {str(error) or 'interrupted'}")
        return int(ExitStatus.INTERRUPTED)
    except OSError as error:
        if error.errno not in _SHORTAGES:
            raise
        tell(f"ssbench-master: system error: {error.strerror}: {_SHORTAGES[error.errno]}")
        return int(ExitStatus.FAILED)
    return int(status)


def _command(words: Sequence[str]) -> ExitStatus:
    words = _translated(words)
    site = None
    if not {"-h", "--help", "--help-all", "--version"} & {*words}:
        from ssbench.cli.site import SiteDefaults

        tables = _Tables()
        site = SiteDefaults.read(os.environ)
        site.check(tables)
        for line in site.misspelt_variables(tables):
            tell(f"Warning: {line}")
    namespace = master_parser(words, site).parse_args(words)
    if namespace.show_config:
        from ssbench.cli.site import describe

        for line in describe(namespace, COMMANDS[namespace.command].rows, os.environ):
            say(line)
        return ExitStatus.OK
    level = logging.INFO if namespace.verbose else logging.WARNING
    log_to_stderr(level, "%(levelname)s:%(message)s")
    command = COMMANDS[namespace.command]
    place, needs_numpy = (
        command.function,
        command.has_statistics or getattr(namespace, "logs", None),
    )
    if getattr(namespace, "resume_cleanup", None) is not None:
        place, needs_numpy = "commands.cleanup:resume_cleanup", False
    if needs_numpy and find_spec("numpy") is None:
        raise SsbenchError(
            f"this command needs the package numpy, which {sys.executable} does not have; to"
            f" install it: {sys.executable} -m pip install numpy"
        )
    module, _, function = place.partition(":")
    try:
        check_files(command.rows, namespace)
        status: ExitStatus = getattr(import_module(f"ssbench.{module}"), function)(namespace)
    except SsbenchError as error:
        from ssbench.cli.site import located

        error.args = (located(str(error), namespace, os.environ),)
        raise
    return status


def _translated(words: Sequence[str]) -> Sequence[str]:
    """A command line of another program becomes one of ours; any other stays as it is."""
    at = next((at for at, word in enumerate(words) if not word.startswith("-")), 0)
    rest = words[at + 1 :]
    is_ours = rest[:1] in ([], ["-h"], ["--help"], ["--help-all"])
    command = COMMANDS.get(words[at]) if words[at:] else None
    if command is None or not command.translator or is_ours:
        return words
    module, _, function = command.translator.partition(":")
    translate = getattr(import_module(f"ssbench.{module}"), function)
    return [*words[:at], *translate(rest, os.environ)]


if __name__ == "__main__":
    sys.exit(main())
