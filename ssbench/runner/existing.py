"""Runs that read objects which are there already (``--existing``), and change nothing.

Their names are in the settings of the run, which every control state carries: so there is a limit
to them, and of more objects some are used, spread evenly over the listing.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from ssbench.core.errors import SsbenchError, StorageError, UsageError
from ssbench.core.model import SizeClass
from ssbench.core.naming import has_dot_segment, pack_names
from ssbench.core.operations import Effect, row_of
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.text import plural, printable
from ssbench.core.workload.bench import bench_jobs
from ssbench.core.workload.population import Population
from ssbench.runner.config import RunPlan
from ssbench.runner.containers import list_objects
from ssbench.storage.retrying_client import RetryingClient

MOST_OBJECTS = 100_000
MOST_PACKED = 2 << 20  #: bytes of their names, compressed: each control state carries them


class ExistingObjects(Struct, frozen=True):
    """Objects of a container, in the order of its listing."""

    container: str
    names: list[str]
    sizes: array[int]  #: bytes
    listed: int  #: objects that can be used; more than ``names`` if there are too many
    dotted: int = 0  #: objects that can't be, for a segment ``.`` or ``..`` in their names
    too_small: int = 0  #: objects of fewer bytes than the scenario's operations need

    @property
    def left_out(self) -> list[str]:
        """A line for each reason for which objects are not used, to show to the user."""
        found = []
        if self.dotted:
            found.append(
                f'Left out: {plural(self.dotted, "object")} with a segment "." or ".." in the'
                " name, which a server may take for another path"
            )
        if self.too_small:
            found.append(
                f"Left out: {plural(self.too_small, 'object')} of fewer bytes than an operation of"
                " the scenario needs"
            )
        return found

    def prepare(self, scenario: Scenario, seed: int) -> tuple[Scenario, RunPlan]:
        """The scenario on these objects, as one size class, and what its run does."""
        low, high = min(self.sizes), max(self.sizes)
        used = [size for size in scenario.sizes if size.initial_files]
        only = SizeClass(
            "existing", low, high, scenario.profile, len(self.names), None, used[0].pick
        )
        scenario = replace(
            scenario, sizes=(only,), container_count=1, policy=None, delete_after=None,
            key_names="flat", populate_headers={},
        )  # fmt: skip
        population = Population([only])
        pool = population.pools[0]
        if pool.sizes is not None:
            pool.sizes.extend(size - low for size in self.sizes)
        names = {
            "kind": "listed",
            "containers": [self.container],
            "packed_names": pack_names(self.names),
        }
        return scenario, RunPlan(
            names, uploads=False, workload=bench_jobs(scenario, seed, population)
        )


def check_existing(scenario: Scenario) -> None:
    """:raises UsageError: the scenario has operations that change objects."""
    writing = [
        row.name.lower()
        for row in map(row_of, sorted(scenario.operations))
        if row.effect is not Effect.NONE
    ]
    if writing:
        raise UsageError(
            f"--existing never changes objects, and {scenario.source} has {', '.join(writing)}:"
            ' leave them out, as in "operations": {"read": 9, "head": 1}'
        )


def list_existing(
    client: RetryingClient, place: str, scenario: Scenario, show: Callable[[str], None]
) -> ExistingObjects:
    """The objects whose names begin with ``place``, CONTAINER[/PREFIX], and are longer.

    :param show: called with what is done, after each page.
    :raises SsbenchError: there are none that the scenario's operations can use, or the container
        can't be listed.
    """
    container, _, prefix = place.partition("/")
    least = max((row_of(each).least_size for each in scenario.operations), default=0)
    names: list[str] = []
    sizes = array("Q")
    dotted = too_small = 0
    listed, step = 0, 1  # every ``step``th object is used
    try:
        for page in list_objects(client, container, prefix):
            for entry in page:
                if has_dot_segment(entry.name):
                    dotted += 1
                    continue
                if entry.size < least:
                    too_small += 1
                    continue
                if listed % step == 0:
                    names.append(entry.name)
                    sizes.append(entry.size)
                listed += 1
                if len(names) > MOST_OBJECTS:
                    names, sizes, step = names[::2], sizes[::2], 2 * step
            show(f"Listing {printable(place)}: {plural(listed, 'object')}")
    except StorageError as error:
        reason = "no such container" if error.status == 404 else error.detail
        raise SsbenchError(f'container "{printable(container)}": {reason}') from error
    while len(pack_names(names)) > MOST_PACKED:
        names, sizes = names[::2], sizes[::2]
    if not names and not client.stopping():
        what = "no object" if least == 0 else f"no object of {least} byte or more"
        without = ' without a segment "." or ".." in its name' if dotted else ""
        raise SsbenchError(f"there is {what}{without} in {printable(place)}")
    return ExistingObjects(container, names, sizes, listed, dotted, too_small)
