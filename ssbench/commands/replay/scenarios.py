"""Makes a scenario of an access log's operations, sizes and rate, or of the sizes in containers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ssbench.commands.replay.access_log import RequestLog, Requests
from ssbench.commands.replay.conversions import scenario_text
from ssbench.commands.replay.formats import BATCHED
from ssbench.core.errors import SsbenchError, StorageError, UsageError
from ssbench.core.model import SECOND_NS
from ssbench.core.operations import Effect, row_of
from ssbench.core.text import plural, printable
from ssbench.runner.containers import list_objects
from ssbench.storage.retrying_client import RetryingClient

#: Names of the size classes, and below how many bytes their objects are.
_CLASSES = (
    ("tiny", 16 << 10), ("small", 256 << 10), ("medium", 4 << 20), ("large", 64 << 20),
    ("huge", 1 << 62),
)  # fmt: skip
#: Swift by default, and S3, take no more in one request: larger objects there are of parts.
_MOST_SIZE = (5 << 30) - 1
_LEAST_INITIAL = 100  #: with fewer, the classes' shares of the load could not be kept
#: Reason why requests are left out of a scenario.
TOO_LARGE = "of objects of 5 GiB or more, which most stores take in parts only"
_SECONDS = 60
_USERS, _MOST_USERS = 64, 1024


class LogScenario(Struct, frozen=True):
    """A scenario of an access log, and what it was made of."""

    text: str  #: JSON
    mean_per_s: float  #: requests
    peak_per_s: int  #: in the busiest second
    seconds: float  #: from the first to the last request
    exponent: float | None  #: of Zipf's law; None: uniform
    uploaded_bytes: float  #: that are uploaded before the run, about


def scenario_of_log(name: str, log: RequestLog, initial: int | None = None) -> LogScenario:
    """A scenario with the operations, sizes and rate of a log, as an open loop of a minute.

    A size class has the operations on its objects; its initial objects are its share of all
    requests, because the load is drawn by these.

    :param log: is empty afterwards.
    :param initial: number of initial objects; None: as many as the log has, from 100 to a limit,
        or more if the run deletes more.
    :raises ScenarioError: it is not valid.
    """
    batched = log.left_out[BATCHED]
    busy_ns, timed = log.busy_ns, log.timed
    arranged = log.arrange(with_sets=True)
    requests = arranged.without_larger(_MOST_SIZE)
    log.left_out[TOO_LARGE] += len(arranged) - len(requests)
    del arranged
    log.left_out = +log.left_out
    if not len(requests):
        raise UsageError("the log has no request that is an operation on objects")
    seconds, total = requests.seconds, len(requests)
    mean, peak = total / seconds, requests.most_within(SECOND_NS)
    exponent = requests.zipf_exponent()
    classes, weights = _size_classes(requests)
    parameters = _parameters(requests, batched)
    files = _initial_files(weights, len(requests.objects), mean * _SECONDS, parameters, initial)
    users = _USERS
    if timed:
        in_flight = busy_ns / timed * mean / SECOND_NS
        users = min(max(math.ceil(4 * in_flight * peak / mean), 16), _MOST_USERS)
    rest: dict[str, object] = {
        "initial_files": files,
        "rate": round(mean, 3),
        "arrivals": "poisson",
        "run_seconds": _SECONDS,
        "user_count": users,
        **parameters,
    }
    if exponent is not None:
        rest["pick"] = {"zipf": round(exponent, 3)}
    rows = [
        {
            "name": label,
            "size": sizes.to_json(),
            "operations": {row_of(each).name.lower(): n for each, n in weights[label].items()},
        }
        for label, sizes in classes.items()
    ]
    uploaded = sum(sizes.mean * files[label] for label, sizes in classes.items())
    text = scenario_text({"name": name, "sizes": rows, **rest})
    return LogScenario(text, mean, peak, seconds, exponent, uploaded)


def _size_classes(
    requests: Requests,
) -> tuple[dict[str, SizeHistogram], dict[str, dict[int, int]]]:
    """By name: the sizes of each class's objects, and how often each operation is on them.

    Operations without an object count for the class with the most requests.
    """
    classes: dict[str, SizeHistogram] = {}
    weights: dict[str, dict[int, int]] = {}
    low = 0
    for label, high in _CLASSES:
        some = requests.of_sizes(low, high)
        if some:
            weights[label] = some.counts
            least = max(row_of(each).least_size for each in some.counts)
            classes[label] = SizeHistogram()
            for size, count in some.size_counts():
                classes[label].add(max(size, least), count)
        low = high
    if not classes:
        classes["tiny"], weights["tiny"] = SizeHistogram(), {}
        classes["tiny"].add(0)
    busiest = max(weights, key=lambda label: sum(weights[label].values()))
    for operation, count in requests.without_object.items():
        weights[busiest][operation] = weights[busiest].get(operation, 0) + count
    return classes, weights


def _parameters(requests: Requests, batched: int) -> dict[str, int]:
    """Keys of the scenario for its operations: bytes of parts, and objects of sets."""
    found = {}
    for operation, count in requests.counts.items():
        row = row_of(operation)
        for each in row.parameters:
            if each.is_size:
                moved = requests.mean_moved(operation)
                found[each.key] = min(moved, each.high) if moved else int(each.default)
            elif each.key == row.set_key and batched:
                found[each.key] = min(max(round(batched / count), each.low), each.high)
    return found


def _initial_files(
    weights: Mapping[str, Mapping[int, int]],
    objects: int,
    operations: float,
    parameters: Mapping[str, int],
    initial: int | None,
) -> dict[str, int]:
    """Initial objects of each class, as its share of all requests; enough for the removals."""
    total = sum(sum(each.values()) for each in weights.values())
    wanted = initial
    if wanted is None:
        wanted = min(max(objects, _LEAST_INITIAL), MOST_INITIAL)
        removed = 0.0
        for counts in weights.values():
            more = 0.0
            for operation, count in counts.items():
                row = row_of(operation)
                each = parameters.get(row.set_key, row.set_size) if row.set_key else 1
                more += (
                    count * each * ((row.effect is Effect.REMOVES) - (row.effect is Effect.CREATES))
                )
            removed = max(removed, more / max(sum(counts.values()), 1))
        wanted = max(wanted, math.ceil(1.5 * removed * operations))
    return {
        label: max(round(wanted * sum(counts.values()) / total), 1)
        for label, counts in weights.items()
    }


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
    for container in containers:
        try:
            for page in list_objects(client, container):
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
    return scenario_text(
        {
            "name": name,
            "sizes": [{"name": "object", "size": sizes.to_json()}],
            "initial_files": {"object": count},
            "operations": {"read": 1},
            "run_seconds": 60,
            "user_count": 16,
        }
    )
