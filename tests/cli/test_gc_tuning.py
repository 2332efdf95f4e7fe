from __future__ import annotations

import gc

from ssbench.cli.gc_tuning import tune_garbage_collector


def test_the_collector_looks_seldom_and_leaves_alone_what_is_there() -> None:
    before = gc.get_threshold()
    frozen = gc.get_freeze_count()
    try:
        tune_garbage_collector()
        assert gc.get_threshold()[0] > 10 * 700
        assert gc.get_freeze_count() > frozen
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
    assert gc.get_freeze_count() == 0
