"""Blocks are compressed and inflated by ISA-L, or by zlib where that can't be installed."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pytest

from ssbench.statfile import format as blocks


@pytest.fixture(scope="module", params=["isal", "zlib"])
def engine(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run the tests of a module with both."""
    if request.param == "isal":
        pytest.importorskip("isal")
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "ENGINE", zlib)
        yield
