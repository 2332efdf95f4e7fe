"""Where processes spent CPU time: stacks of functions, with the time that was sampled in each.

A stack is text in the collapsed form of flamegraph.pl and py-spy: ``function (file:line)`` of each
call, the outermost first, separated by semicolons. It has neither arguments nor values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from ssbench.core.text import MAX_KEY

#: Stacks of one process, and bytes of all of them, which a worker's message can hold. Those with
#: the least time are merged.
MAX_STACKS, MAX_STACKS_TEXT = 4096, 384 << 10
#: Of a call tree: calls, and levels that are listed. What is below counts to the call above it.
_MOST_CALLS, _DEEPEST = 200_000, 100
#: In place of a stack: time in stacks that were merged, and in threads that run no Python code (as
#: ZeroMQ's) or ended before the next sample.
OTHER_STACKS, OTHER_THREADS = "(other stacks)", "(other threads)"


class CpuProfile(NamedTuple):
    """One process."""

    stacks: Mapping[str, int]  #: CPU time in ns
    samples: int
    overhead_ns: int  #: CPU time that sampling itself took; in no stack

    @classmethod
    def of(cls, stacks: Mapping[str, int], samples: int, overhead_ns: int) -> CpuProfile:
        """Within the bounds. Of a stack that is longer than a key may be, the outer calls are cut
        off."""
        found: Counter[str] = Counter()
        for stack, cpu_ns in stacks.items():
            inner = stack if len(stack) <= MAX_KEY else stack[-MAX_KEY:].partition(";")[2]
            found[inner or OTHER_STACKS] += cpu_ns
        kept: Counter[str] = Counter()
        length = 0
        for stack, cpu_ns in sorted(found.items(), key=lambda item: (-item[1], item[0])):
            length += len(stack.encode(errors="replace"))
            fits = length <= MAX_STACKS_TEXT and len(kept) < MAX_STACKS - 1
            kept[stack if fits else OTHER_STACKS] += cpu_ns
        return cls(kept, samples, overhead_ns)


class FunctionTime(NamedTuple):
    """A function in all stacks, or one call of the call tree."""

    function: str
    self_ns: int  #: in the function itself
    total_ns: int  #: with the functions that it called
    depth: int = 0  #: in the call tree


def merged(profiles: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    """The time of each stack in all of these processes."""
    found: Counter[str] = Counter()
    for stacks in profiles:
        found.update(stacks)
    return found


def hot_functions(stacks: Mapping[str, int]) -> list[FunctionTime]:
    """The functions, those with the most self time first."""
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for stack, cpu_ns in stacks.items():
        frames = stack.split(";")
        own[frames[-1]] += cpu_ns
        for function in set(frames):
            total[function] += cpu_ns
    found = [FunctionTime(function, own[function], total[function]) for function in total]
    return sorted(found, key=lambda each: (-each.self_ns, -each.total_ns, each.function))


class _Call(Struct):
    """A call of the tree: its times, and the calls that it made, by function."""

    own_ns: int = 0
    total_ns: int = 0
    calls: dict[str, _Call] = {}


def call_tree(stacks: Mapping[str, int], least_ns: float) -> Iterator[FunctionTime]:
    """The calls that took at least so long, callers before what they called, the longest first.

    A call that spent all its time in one other call is left out: that one stands in its place.
    """
    root, calls = _Call(), 0
    for stack, cpu_ns in stacks.items():
        call = root
        for function in stack.split(";"):
            if function not in call.calls:
                if calls >= _MOST_CALLS:
                    break
                calls += 1
                call.calls[function] = _Call()
            call = call.calls[function]
            call.total_ns += cpu_ns
        call.own_ns += cpu_ns
    waiting = [("", root, -1)]
    while waiting:
        function, call, depth = waiting.pop()
        below = sorted(call.calls.items(), key=lambda each: (each[1].total_ns, each[0]))
        passes_on = len(below) == 1 and below[0][1].total_ns == call.total_ns
        if call is not root and not passes_on:
            yield FunctionTime(function, call.own_ns, call.total_ns, depth)
        next_depth = depth if call is not root and passes_on else depth + 1
        if next_depth < _DEEPEST:
            waiting += [
                (name, each, next_depth) for name, each in below if each.total_ns >= least_ns
            ]


def collapsed(process: str, stacks: Mapping[str, int]) -> Iterator[str]:
    """Lines that flamegraph.pl and speedscope read: the stack below ``process``, and microseconds
    of CPU time."""
    for stack, cpu_ns in sorted(stacks.items()):
        if cpu_ns >= 500:
            yield f"{process};{stack} {round(cpu_ns / 1000)}\n"
