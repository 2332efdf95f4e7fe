"""``python -m benchmarks.soak``."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.soak import workers
from benchmarks.soak.faults import KINDS
from benchmarks.soak.soak import Soak, terminate_with_us
from benchmarks.soak.table import judged, lines

_INSIDE = "--in-namespace"


def main(arguments: Sequence[str]) -> int:
    """Returns the exit status: 1 if anything was wrong."""
    options = parser().parse_args(arguments)
    if "cut" in options.faults and not options.in_namespace:
        prefix = workers.enter_namespace()
        if not shutil.which("unshare") or not shutil.which("ip"):
            parser().error("cut needs unshare and ip: install util-linux and iproute2, or give"
                           " --faults without it")  # fmt: skip
        command = [*prefix, sys.executable, "-m", "benchmarks.soak", *arguments, _INSIDE]
        os.execvp(command[0], command)
    if options.in_namespace:
        workers.set_up()
    terminate_with_us()
    seed = random.SystemRandom().getrandbits(32) if options.seed is None else options.seed
    print(f"seed {seed}, {options.minutes:g} minutes", flush=True)
    place = Path(tempfile.mkdtemp(prefix="ssbench-soak-"))
    outcome = Soak(place, options.minutes * 60, seed, options.faults).run()
    print("\n".join(lines(outcome)))
    wrong = judged(outcome)
    if wrong or options.keep:
        print(f"\nlogs, stat file, report and memory are in {place}")
    else:
        shutil.rmtree(place)
    print("\n".join(f"WRONG: {line}" for line in wrong) or "\nall is accounted for")
    return 1 if wrong else 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.soak",
        description="Run against a real Swift for long, with faults; exit status 1 where memory"
        " grows, somebody hangs, or an operation is not accounted for.",
    )
    made.add_argument("--minutes", type=float, default=30.0, help="how long [default: 30]")
    made.add_argument("--seed", type=int, help="repeat the faults of the run that had this")
    made.add_argument(
        "--faults", type=_kinds, default=tuple(KINDS), metavar="KIND,...",
        help=f"what may happen [default: {','.join(KINDS)}]",
    )  # fmt: skip
    made.add_argument("--keep", action="store_true", help="keep logs, stat file and report")
    made.add_argument(_INSIDE, action="store_true", help=argparse.SUPPRESS)
    return made


def _kinds(text: str) -> tuple[str, ...]:
    kinds = tuple(text.split(","))
    if not set(kinds) <= set(KINDS):
        raise argparse.ArgumentTypeError(f"{text!r}: of {', '.join(KINDS)}, with commas between")
    return kinds


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
