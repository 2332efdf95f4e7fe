"""Known vulnerabilities of what ssbench needs at run time, where an advisory service can be had.

``python .ci/audit.py [COMMAND ...]`` runs pip-audit (or the command) over the versions that are
installed here. Exit status 1 where it found something. Without a network, a service or an answer
in time it warns in one line that nothing was audited, which ``.ci/run`` repeats as its last (by the
file that SSBENCH_CI_WARNINGS names): a check must not fail for that, nor hang.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

LONGEST_S = 60
NOT_AUDITED = "WARNING: pip-audit: skipped, NOTHING WAS AUDITED: no advisory service answers here"
PIP_AUDIT = (
    sys.executable, "-m", "pip_audit", "--progress-spinner", "off", "--timeout", "5",
    "--format", "json", "--no-deps", "--disable-pip", "--requirement",
)  # fmt: skip


def needed(names: Sequence[str]) -> dict[str, str]:
    """Name -> version of these packages and all that they need, extras left out."""
    found: dict[str, str] = {}
    waiting = list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue  # for another system or version of Python
        found[name] = package.version
        for line in package.requires or ():
            if "extra ==" not in line:
                waiting.append(re.split(r"[^\w.-]", line, maxsplit=1)[0])
    return found


def verdict(report: str) -> tuple[int, list[str]]:
    """Exit status and lines, of pip-audit's JSON; the like of a skipped one for anything else."""
    try:
        packages = json.loads(report)["dependencies"]
        looked_at = [package for package in packages if "vulns" in package]
        faults = [
            f"{package['name']} {package['version']}: {vuln['id']}"
            f" (fixed in {', '.join(vuln['fix_versions']) or 'no version'})"
            for package in looked_at
            for vuln in package["vulns"]
        ]
    except (ValueError, LookupError, TypeError):
        looked_at, faults = [], []
    if not looked_at:
        return 0, [NOT_AUDITED]
    if faults:
        return 1, ["pip-audit: known vulnerabilities in what ssbench needs:", *faults]
    return 0, [f"pip-audit: {len(looked_at)} packages, nothing known against them"]


def main(command: Sequence[str]) -> int:
    """Gives the exit status."""
    with tempfile.TemporaryDirectory() as place:
        pinned = Path(place) / "requirements.txt"
        versions = needed(["ssbench"])
        versions.pop("ssbench", None)
        pinned.write_text("".join(f"{name}=={version}\n" for name, version in versions.items()))
        try:
            done = subprocess.run(
                [*command, str(pinned)], capture_output=True, text=True, timeout=LONGEST_S,
                check=False, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            report = done.stdout
        except (OSError, subprocess.TimeoutExpired):
            report = ""
    status, lines = verdict(report)
    print("\n".join(lines), file=sys.stderr if lines == [NOT_AUDITED] else sys.stdout)
    warnings = os.environ.get("SSBENCH_CI_WARNINGS")
    if warnings and lines == [NOT_AUDITED]:
        with open(warnings, "a") as file:
            file.write(f"{NOT_AUDITED}\n")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or PIP_AUDIT))
