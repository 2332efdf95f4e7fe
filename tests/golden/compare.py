"""Golden files: what was printed once, read by a person, and is to stay so.

``SSBENCH_WRITE_GOLDEN=1 pytest tests/report`` writes them anew; read the diff before you commit.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent


def check(name: str, text: str) -> None:
    """Assert that the text is that of the golden file."""
    path = FOLDER / name
    if os.environ.get("SSBENCH_WRITE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()
