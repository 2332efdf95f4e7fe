"""What is read out of a peer's output."""

from __future__ import annotations

import pytest

from benchmarks.bench.child import CommandError, Completed
from benchmarks.bench.peers.run import Peer, parse


def test_it_says_how_many_and_how_long() -> None:
    assert parse(Completed("noise\nSAYS 37438 2.845522\nmore\n", 2.5, 60)) == Peer(
        37438, 2.845522, 2.5
    )


@pytest.mark.parametrize("out", ["", "SAYS 0 2.0\n", "3 requests failed\n"])
def test_one_that_did_nothing_gives_no_figure(out: str) -> None:
    with pytest.raises(CommandError, match="doesn't say"):
        parse(Completed(out, 2.5, 60))
