"""``python -m tests.fuzz --seconds 60 [TARGET ...]``: fuzz each target for so long.

Exits 1 where one is found wanting, and says which input did it.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from tests.test_decoders import DECODERS

#: What libFuzzer finds worth keeping, and what makes a target fail, stays here between runs.
PLACE = Path(".fuzz")
#: One input may take so long, and no more memory than a small host has.
_INPUT_S, _MEMORY_MB = 20, 2048
#: Beyond the time given, for start and end: modules are instrumented when they are imported.
_GRACE_S = 900
_TOLD = re.compile(rb"^#\d+.*", re.MULTILINE)


def main(arguments: list[str] | None = None) -> int:
    """Gives the exit status."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, metavar="N", help="for each target")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(DECODERS))
    options = parser.parse_args(arguments)
    unknown = [name for name in options.targets if name not in DECODERS]
    if unknown:
        parser.error(f"no target {', '.join(unknown)}; there are {', '.join(DECODERS)}")
    failed = [name for name in options.targets or DECODERS if not fuzz(name, options.seconds)]
    print(f"Findings in: {', '.join(failed)}" if failed else "No findings.")
    return 1 if failed else 0


def fuzz(name: str, seconds: int) -> bool:
    """One target; True where its invariant held."""
    corpus, log = PLACE / name / "corpus", PLACE / name / "log"
    corpus.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file:
        try:
            status = subprocess.run(
                [
                    sys.executable, "-m", "tests.fuzz.one", name,
                    f"-max_total_time={seconds}", f"-timeout={_INPUT_S}",
                    f"-rss_limit_mb={_MEMORY_MB}", f"-artifact_prefix={PLACE / name}/",
                    "-max_len=20000", str(corpus),
                ],
                stdout=file, stderr=file, timeout=seconds + _GRACE_S, check=False,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            status = -1
    said = log.read_bytes()
    last = _TOLD.findall(said)[-1:] or [b"nothing was tried"]
    print(f"{name:20} {'ok' if not status else 'FAILED':8}{last[0].decode(errors='replace')}")
    if status:
        print(f"{said[-3000:].decode(errors='backslashreplace')}\n{name}: all of it is in {log};")
        found = re.findall(rb"Test unit written to (\S+)", said)
        where = found[0].decode() if found else "not known"
        print(f"{name}: the input is {where}; python -m tests.fuzz.one {name} {where} repeats it")
    sys.stdout.flush()
    return not status


if __name__ == "__main__":
    sys.exit(main())
