"""Makes a scenario of access logs: their operations, sizes and rate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ssbench.core.accesslog.formats import BATCHED
from ssbench.core.accesslog.requests import RequestLog, Requests
from ssbench.core.errors import UsageError
from ssbench.core.model import SECOND_NS
from ssbench.core.operations import Effect, row_of
from ssbench.runner.make_scenario import MOST_INITIAL, SizeHistogram, scenario_text

#: Names of the size classes, and below how many bytes their objects are.
_CLASSES = (
    ("tiny", 16 << 10), ("small", 256 << 10), ("medium", 4 << 20), ("large", 64 << 20),
    ("huge", 1 << 62),
)  # fmt: skip
_LEAST_INITIAL = 100  #: with fewer, the classes' shares of the load could not be kept
_SECONDS = 60
_USERS, _MOST_USERS = 64, 1024


@dataclass(frozen=True, slots=True)
class LogScenario:
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
    requests = log.arrange(with_sets=True)
    if not len(requests):
        raise UsageError("the log has no request that is an operation on objects")
    seconds, total = requests.seconds, len(requests)
    mean, peak = total / seconds, requests.most_within(SECOND_NS)
    exponent = requests.zipf_exponent()
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
    alone = requests.without_object
    if not classes:
        classes["tiny"], weights["tiny"] = SizeHistogram(), {}
        classes["tiny"].add(0)
    busiest = max(weights, key=lambda label: sum(weights[label].values()))
    for operation, count in alone.items():
        weights[busiest][operation] = weights[busiest].get(operation, 0) + count
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
    rows = {
        label: (
            sizes,
            {"operations": {row_of(each).name.lower(): n for each, n in weights[label].items()}},
        )
        for label, sizes in classes.items()
    }
    uploaded = sum(sizes.mean * files[label] for label, sizes in classes.items())
    text = scenario_text(name, rows, rest)
    return LogScenario(text, mean, peak, seconds, exponent, uploaded)


def _parameters(requests: Requests, batched: int) -> dict[str, int]:
    """Keys of the scenario for its operations: bytes of parts, and objects of sets."""
    found = {}
    for operation, count in requests.counts.items():
        row = row_of(operation)
        for each in row.parameters:
            if each.is_size:
                found[each.key] = min(max(requests.mean_moved(operation), each.low), each.high)
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
