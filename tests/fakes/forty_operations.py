"""A driver with forty operations: all combinations of target, effect and body, but for versions.

Importing it registers their rows, as a driver's module does. No test process may: their tests
run ssbench in processes of its own.
"""

from __future__ import annotations

from itertools import cycle, product
from random import Random
from time import perf_counter_ns

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Job, Timing
from ssbench.core.operations import (
    FIRST_BYTE,
    LAST_BYTE,
    OPERATIONS,
    Body,
    Effect,
    NotFound,
    Operation,
    Phase,
    Target,
    register,
)
from ssbench.core.settings import StorageSettings
from ssbench.storage.base import Action
from ssbench.storage.noop import NoopStorage

FIRST = 1000
SET_SIZE = 3
FAILURE, NOT_FOUND = 11, 41  #: one operation of so many has it


def _first_half(rng: Random, size: int) -> tuple[int | bytes, ...]:
    return rng.randrange(1 + size), b"half"


def _rows() -> list[Operation]:
    of_objects = [effect for effect in Effect if effect is not Effect.PRUNES]
    kinds = [
        *product([Target.OBJECT], of_objects),
        *((Target.OBJECTS, effect) for effect in of_objects if effect is not Effect.CONTESTS),
        (Target.PAIR, Effect.CREATES), (Target.CONTAINER, Effect.NONE),
    ]  # fmt: skip
    not_found = cycle(NotFound)
    rows = [
        (f"{effect.value}_{target.value}_{body.value}", target, effect, body, next(not_found), ())
        for (target, effect), body in product(kinds, (Body.NONE, Body.SENT, Body.RECEIVED))
    ]
    rows += [
        (f"argued_{target.value}", target, effect, Body.NONE, next(not_found), ("at", "what"))
        for target, effect in [kinds[0], kinds[len(of_objects)], *kinds[-2:]]
    ]
    return [
        Operation(
            FIRST + at, name.upper(), effect, target=target, body=body, not_found=missing,
            progress=FIRST_BYTE if body is Body.RECEIVED else LAST_BYTE, set_size=SET_SIZE,
            arguments=arguments, draw=_first_half if arguments else None,
        )
        for at, (name, target, effect, body, missing, arguments) in enumerate(rows)
    ]  # fmt: skip


ROWS = [register(row) for row in _rows()]


class FortyStore(NoopStorage):
    """Answers at once. Some operations find nothing, and of some sets one object fails."""

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        super().__init__(settings, seed)
        self.actions = {
            number: _answers(OPERATIONS[number], action) if number >= FIRST else action
            for number, action in self.actions.items()
        }


def _answers(row: Operation, action: Action) -> Action:
    assert row.phase is Phase.RUN

    def answer(job: Job, deadline_ns: int) -> Timing:
        objects = (job.object, *job.others)
        if row.target is Target.OBJECTS:
            assert 1 <= len(objects) == len(set(objects)) <= SET_SIZE, job
        else:
            assert len(objects) == (2 if row.target is Target.PAIR else 1), job
        assert len(job.arguments) == len(row.arguments), job
        now = perf_counter_ns()
        if job.number % NOT_FOUND == 0:
            timing = Timing(now, now, now, 0, 404)
            raise StorageError(ErrorKind.STATUS, "nothing there", status=404, timing=timing)
        if job.number % FAILURE == 0 and row.target is Target.OBJECTS:
            statuses = (409, *[204] * len(job.others))
            timing = Timing(now, now, now, 0, 409, items=len(job.others), statuses=statuses)
            raise StorageError(ErrorKind.STATUS, "one failed", status=409, timing=timing)
        return action(job, deadline_ns)._replace(items=len(objects))

    return answer
