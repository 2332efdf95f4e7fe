"""Tallies by stage of the load, operation and size class, and what they add up to."""

from __future__ import annotations

from ssbench.core.stats.batches import Group
from ssbench.core.stats.tally import Tally, merged


class Groups:
    """A tally for each group of each stage that has results; merges in any order."""

    def __init__(self) -> None:
        self._stages: list[dict[Group, Tally]] = [{}]
        # What they add up to, as far as somebody asked; nothing after a change.
        self._together: dict[Group, Tally] | None = None
        self._totals: dict[tuple[int | None, ...], Tally] = {}

    def __repr__(self) -> str:
        return f"<Groups {[len(tallies) for tallies in self._stages]} by stage>"

    def __len__(self) -> int:
        """How many stages, up to the last that has results; at least one."""
        return len(self._stages)

    def to_add_to(self, stage: int, group: Group) -> Tally:
        """The tally of a group, empty where there was none."""
        self._together = None
        self._totals.clear()
        while len(self._stages) <= stage:
            self._stages.append({})
        tally = self._stages[stage].get(group)
        if tally is None:
            tally = self._stages[stage][group] = Tally()
        return tally

    def merge(self, other: Groups) -> None:
        """Add the tallies of ``other``, which stays as it is."""
        for stage, tallies in enumerate(other._stages):
            for group, tally in tallies.items():
                self.to_add_to(stage, group).merge(tally)

    @property
    def all_stages(self) -> dict[Group, Tally]:
        """The sums by operation and size class."""
        if len(self._stages) == 1:
            return self._stages[0]
        if self._together is None:
            self._together = {}
            for tallies in self._stages:
                for group, tally in tallies.items():
                    self._together.setdefault(group, Tally()).merge(tally)
        return self._together

    def total(self, operation: int | None, size_class: int | None, stage: int | None) -> Tally:
        """The sum over the groups; None stands for all.

        It is the same one as long as nothing is added: a report asks for some of them often.
        """
        asked = operation, size_class, stage
        if asked not in self._totals:
            self._totals[asked] = self._total(*asked)
        return self._totals[asked]

    def _total(self, operation: int | None, size_class: int | None, stage: int | None) -> Tally:
        parts = [
            tally
            for (of_operation, of_class), tally in self._of(stage).items()
            if operation in (None, of_operation) and size_class in (None, of_class)
        ]
        return merged(Tally(), parts)

    def _of(self, stage: int | None) -> dict[Group, Tally]:
        if stage is None:
            return self.all_stages
        return self._stages[stage] if stage < len(self._stages) else {}
