"""A script that stands for ssh: it runs the command here, or fails as ssh does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ssbench import __version__
from ssbench.transport.parent_pipe import GroupStarted, to_line

_SCRIPT = """\
for word; do target=$before before=$word; done  # the last but one
export SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22"
case "$target" in
refused) echo "root@refused: Permission denied (publickey)." >&2; exit 255;;
silent) exit 255;;
esac
exec sh -c "$before"
"""


def fake_ssh(folder: Path) -> tuple[str, str]:
    """The command."""
    script = folder / "ssh"
    script.write_text(_SCRIPT)
    return "sh", str(script)


def started(ahead_s: int = 0, then: str = "cat", **changes: Any) -> str:
    """A command that reports what a group of workers does, then waits."""
    report = GroupStarted(__version__, 7.5, "127.0.0.1", {"a-0": 1})._replace(**changes)
    line = to_line(report).replace("7.5", f"'$(date -d '{ahead_s} seconds' +%s.%N)'")
    return f"echo '{line}'; {then}; : "
