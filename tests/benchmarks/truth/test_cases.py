"""What the server is to do with a request, and what its lies differ in."""

from __future__ import annotations

from random import Random

from benchmarks.truth.cases import CASES, MS, SECOND
from benchmarks.truth.lies import LIES, Stored


def test_a_delay_is_counted_from_the_request() -> None:
    plan = CASES["fixed"].plan(7 * MS, 0, Random(1))
    assert (plan.head_ns, plan.rest_ns, plan.fails, plan.lies) == (27 * MS, 27 * MS, False, False)
    plan = CASES["split"].plan(SECOND, 0, Random(1))
    assert (plan.head_ns - SECOND, plan.rest_ns - SECOND) == (10 * MS, 50 * MS)
    case = CASES["drip"]
    portions = case.portions(case.plan(SECOND, 0, Random(1)), 33)
    assert portions == [(SECOND + (5 + n) * MS, 1 + 2 * n) for n in range(17)]


def test_nothing_leaves_in_a_stall() -> None:
    case, rng = CASES["stalled"], Random(1)
    for got_ms, leaves_ms in [(0, 20), (3970, 3990), (3981, 5000), (4500, 5000), (4985, 5005)]:
        assert case.plan(got_ms * MS + 11, 11, rng).head_ns == leaves_ms * MS + 11


def test_one_in_a_hundred_is_slow_and_two_fail_or_lie() -> None:
    rng = Random(1)
    delays = [CASES["bimodal"].plan(0, 0, rng).head_ns for _ in range(20_000)]
    assert set(delays) == {5 * MS, 200 * MS}
    assert 140 < delays.count(200 * MS) < 260
    assert 300 < sum(CASES["failing"].plan(0, 0, rng).fails for _ in range(20_000)) < 500
    assert 300 < sum(CASES["lying"].plan(0, 0, rng).lies for _ in range(20_000)) < 500


def test_each_lie_differs_in_what_it_is_named_for_and_in_nothing_else() -> None:
    stored = Stored(b"abcdef", "e1", "X-Object-Meta-A: 1\r\n")
    other = Stored(b"another", "e2", "X-Object-Meta-A: 2\r\n")
    told = {how: lie(stored, other) for how, lie in LIES.items()}
    assert told["etag"].etag != stored.etag
    differing = int.from_bytes(told["bit"].body, "big") ^ int.from_bytes(stored.body, "big")
    assert differing.bit_count() == 1
    assert told == {
        "etag": stored._replace(etag=told["etag"].etag),
        "other": other,
        "short": stored._replace(body=b"abcde"),
        "bit": stored._replace(body=told["bit"].body),
        "break": stored,  # the connection ends in its body
    }
