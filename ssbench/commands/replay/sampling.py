"""Makes a scenario of what a store holds: sizes as they are distributed there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ssbench.core.errors import SsbenchError, StorageError
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.text import plural, printable
from ssbench.runner.listings import list_objects, page_size
from ssbench.storage.retrying_client import RetryingClient

MOST_INITIAL = 10_000  #: initial objects of a scenario, unless the user wants more
_BITS = 3  #: of a size that a bin keeps: four bins from each power of two to the next


class SizeHistogram:
    """Counts sizes in at most 210 bins up to 2**53 bytes, each 25 % wide or less."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[int, int]] = Counter()

    @property
    def count(self) -> int:
        """Number of sizes."""
        return self._counts.total()

    @property
    def mean(self) -> float:
        """Bytes, as far as bins tell."""
        middles = (
            ((part << shift) + (1 << shift >> 1), n) for (shift, part), n in self._counts.items()
        )
        return sum(middle * n for middle, n in middles) / max(self.count, 1)

    def add(self, size: int, count: int = 1) -> None:
        """Count a size in bytes; one above 2**52 as that."""
        size = min(size, 1 << 52)
        shift = max(size.bit_length() - _BITS, 0)
        self._counts[shift, size >> shift] += count

    def to_json(self) -> dict[str, Any]:
        """The value of ``size`` in a size class."""
        bins = [
            [part << shift, (part + 1) << shift, count]
            for (shift, part), count in self._counts.items()
        ]
        return {"histogram": sorted(bins)}


def sample_containers(
    client: RetryingClient, containers: Sequence[str], show: Callable[[str], None]
) -> SizeHistogram:
    """The sizes of all objects in these containers.

    :param show: called with what is done, after each page.
    :raises SsbenchError: a container can't be listed, or there are no objects.
    """
    sizes = SizeHistogram()
    limit = page_size(client.call(client.storage.limits))
    for container in containers:
        try:
            for page in list_objects(client, container, limit):
                for entry in page:
                    sizes.add(entry.size)
                show(f"Listing {printable(container)}: {plural(sizes.count, 'object')} so far")
        except StorageError as error:
            reason = "no such container" if error.status == 404 else error.detail
            raise SsbenchError(f'container "{printable(container)}": {reason}') from error
    if not sizes.count and not client.stopping():
        raise SsbenchError("there are no objects in " + ", ".join(map(printable, containers)))
    return sizes


def scenario_of(name: str, sizes: SizeHistogram, initial: int | None = None) -> str:
    """A scenario, as JSON, that reads objects whose sizes are distributed like these.

    :param initial: number of its initial objects; None: as many as were counted, up to a limit.
    :raises ScenarioError: it is not valid.
    """
    count = min(sizes.count, MOST_INITIAL) if initial is None else initial
    rest: dict[str, object] = {
        "initial_files": {"object": count},
        "operations": {"read": 1},
        "run_seconds": 60,
        "user_count": 16,
    }
    return scenario_text(name, {"object": (sizes, {})}, rest)


def scenario_text(
    name: str,
    classes: Mapping[str, tuple[SizeHistogram, Mapping[str, object]]],
    rest: Mapping[str, object],
) -> str:
    """A scenario of size classes, each with its further keys, and of other keys.

    :raises ScenarioError: it is not valid.
    """
    rows = []
    for label, (sizes, keys) in classes.items():
        bins = ",\n        ".join(map(json.dumps, sizes.to_json()["histogram"]))
        more = "".join(f",\n     {json.dumps(key)}: {json.dumps(keys[key])}" for key in keys)
        rows.append(
            f'    {{"name": {json.dumps(label)}, "size": {{"histogram": [\n        {bins}\n    ]}}'
            f"{more}}}"
        )
    lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in rest.items())
    text = (
        f'{{\n  "name": {json.dumps(name)},\n  "sizes": [\n'
        + ",\n".join(rows)
        + f"\n  ],\n{lines}\n}}\n"
    )
    Scenario.from_json(text)
    return text
