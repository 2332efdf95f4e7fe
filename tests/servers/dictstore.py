"""The store of docs/how-to/drivers in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs/how-to/drivers"
DRIVER = "dictstore:DictStorage"
if str(FOLDER) not in sys.path:
    sys.path.append(str(FOLDER))


class DictStore:
    """A context manager around the process.

    :param token_life_s: how long its tokens are valid.
    """

    key = "Dk4-key-of-the-dict-store"

    def __init__(self, token_life_s: float = 3600) -> None:
        self._variables = {"DICTSTORE_KEY": self.key, "DICTSTORE_TOKEN_LIFE": str(token_life_s)}

    def __enter__(self) -> DictStore:
        self._process = subprocess.Popen(
            [sys.executable, str(FOLDER / "dictstore.py"), "127.0.0.1:0"],
            env={**os.environ, **self._variables}, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def options(self) -> list[str]:
        """Of ssbench-master."""
        return ["--storage", DRIVER, "--storage-option", f"address={self.address}"]

    @property
    def environment(self) -> dict[str, str]:
        """Of ssbench-master: the key, and where the driver is."""
        return {"DICTSTORE_KEY": self.key, "PYTHONPATH": str(FOLDER)}
