"""ssbench: a benchmark suite for OpenStack Swift and other object stores.

The public API, described in docs/reference/api.rst. Names load when they are first used, so
that a worker loads neither the runner nor reports.
"""

from __future__ import annotations

TYPE_CHECKING = False  # that of typing takes long to load, and this is loaded first
if TYPE_CHECKING:
    from typing import Any

    from ssbench.core.errors import ExitStatus, SsbenchError
    from ssbench.core.live import Observer
    from ssbench.core.stats.compare import Comparison
    from ssbench.core.stats.run_stats import RunStats
    from ssbench.live.terminal import make_progress
    from ssbench.runner.api import ab, compare, find_limit, read, run, sweep
    from ssbench.runner.config import SearchConfig
    from ssbench.runner.paired import PairedRuns
    from ssbench.runner.series import LimitSearch, Sweep
    from ssbench.runner.single_run import Aborted, RunResult
    from ssbench.runner.stop import Stop

__version__ = "1.0.0"

__all__ = [
    "Aborted",
    "Comparison",
    "ExitStatus",
    "LimitSearch",
    "Observer",
    "PairedRuns",
    "RunResult",
    "RunStats",
    "SearchConfig",
    "SsbenchError",
    "Stop",
    "Sweep",
    "__version__",
    "ab",
    "compare",
    "find_limit",
    "make_progress",
    "read",
    "run",
    "sweep",
]

#: Module -> the public names that it defines.
_PUBLIC = {
    "ssbench.live.terminal": ("make_progress",),
    "ssbench.core.errors": ("ExitStatus", "SsbenchError"),
    "ssbench.core.live": ("Observer",),
    "ssbench.core.stats.compare": ("Comparison",),
    "ssbench.core.stats.run_stats": ("RunStats",),
    "ssbench.runner.api": ("ab", "compare", "find_limit", "read", "run", "sweep"),
    "ssbench.runner.single_run": ("Aborted", "RunResult"),
    "ssbench.runner.config": ("SearchConfig",),
    "ssbench.runner.paired": ("PairedRuns",),
    "ssbench.runner.series": ("LimitSearch", "Sweep"),
    "ssbench.runner.stop": ("Stop",),
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for module, names in _PUBLIC.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """What ``help`` and completion show: the public names, though they load later."""
    return __all__
