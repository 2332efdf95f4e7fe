"""Fuzz one target until libFuzzer ends: ``python -m tests.fuzz.one NAME [libFuzzer's options]``."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from pathlib import Path

import atheris


def main() -> None:
    name, *options = sys.argv[1:]
    # What the parsers call is watched; the tests around them and their tools are not.
    with atheris.instrument_imports(include=["ssbench"]):
        from ssbench.core.errors import SsbenchError
        from tests import conftest  # noqa: F401 - hypothesis' settings
        from tests.test_decoders import DECODERS

        decoder = DECODERS[name]
        seeds = decoder.seeds()
        with suppress(SsbenchError):
            decoder.read(b"")  # imports
    logging.disable()  # what is refused is told, a million times
    folder = Path(options[-1])
    for number, seed in enumerate(seeds if folder.is_dir() else ()):
        (folder / f"seed-{number}").write_bytes(seed)
    atheris.Setup([sys.argv[0], *options], decoder.check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
