"""An observer that records all it is told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from ssbench.core.live import Observer, RunProgress
from ssbench.core.model import Phase


class Recorder(Observer):
    """Wants everything."""

    wants_results = True
    wants_counts = True

    def __init__(self) -> None:
        self.runs: list[tuple[int, str]] = []
        self.phases: list[tuple[Phase, int | None, str]] = []
        self.updates: dict[Phase, list[RunProgress]] = defaultdict(list)
        self.results_seen = 0
        self.infos: list[str] = []
        self.messages: list[str] = []
        self.waits: list[str] = []
        self.on_update: Callable[[Phase], object] = lambda phase: None

    def start_run(self, number: int, name: str) -> None:
        self.runs.append((number, name))

    def start_phase(self, phase: Phase, total: int | None = None, title: str = "") -> None:
        self.phases.append((phase, total, title))

    def results(self, columns: Sequence[Sequence[int]]) -> None:
        self.results_seen += len(columns[0])

    def update(self, progress: RunProgress) -> None:
        phase = self.phases[-1][0]
        self.updates[phase].append(progress)
        self.on_update(phase)

    def wait_for(self, text: str) -> None:
        self.waits.append(text)

    def info(self, text: str) -> None:
        self.infos.append(text)

    def message(self, text: str) -> None:
        self.messages.append(text)
