"""Where this process spends CPU time: what a sampler says of work whose shares are known."""

from __future__ import annotations

import hashlib
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import gevent
import pytest

from ssbench.core.cpu_profile import OTHER_STACKS, CpuProfile, hot_functions
from ssbench.host.sampler import StackSampler


def sampled(work: Callable[[], object]) -> CpuProfile:
    sampler = StackSampler()
    assert sampler.start()
    try:
        work()
    finally:
        profile = sampler.stop()
    return profile


def share(profile: CpuProfile, name: str) -> float:
    """Of the CPU time that has a stack, of a function and what it calls.

    What came after the last sample has none; on a busy host, which samples late, it can be a fifth.
    """
    total_ns = sum(ns for stack, ns in profile.stacks.items() if stack != OTHER_STACKS)
    found = hot_functions(profile.stacks)
    return sum(each.total_ns for each in found if name in each.function) / total_ns


def burn(cpu_s: float) -> float:
    """The CPU time that it took: can be far more, where a hypervisor counts what others used.

    A busy host sends the kernel's signals late, and few: this ends with one of its own.
    """
    start_s = now_s = time.thread_time()
    while now_s < start_s + cpu_s:
        sum(range(100))
        now_s = time.thread_time()
    signal.raise_signal(signal.SIGPROF)
    return now_s - start_s


def much(times: int) -> float:
    spent_s = 0.0
    for _ in range(times):
        spent_s += burn(0.006)
        gevent.sleep(0)
    return spent_s


def little(times: int) -> float:
    spent_s = 0.0
    for _ in range(times):
        spent_s += burn(0.002)
        gevent.sleep(0)
    return spent_s


def test_greenlets_have_their_shares_of_the_time() -> None:
    greenlets = [gevent.spawn(much, 50), gevent.spawn(little, 50)]
    profile = sampled(lambda: gevent.joinall(greenlets))
    much_s, little_s = (each.get() for each in greenlets)
    assert profile.samples >= 100
    assert share(profile, "much (") == pytest.approx(much_s / (much_s + little_s), abs=0.05)
    assert share(profile, "little (") == pytest.approx(little_s / (much_s + little_s), abs=0.05)
    stack = max((each for each in profile.stacks if "little (" in each), key=profile.stacks.get)
    first = little.__code__.co_firstlineno
    assert stack.split(";")[-2:] == [
        f"little (tests/host/test_sampler.py:{first})",
        f"burn (tests/host/test_sampler.py:{burn.__code__.co_firstlineno})",
    ]


def hash_much(cpu_s: float) -> None:
    data, end_s = bytes(1 << 20), time.thread_time() + cpu_s
    while time.thread_time() < end_s:
        hashlib.sha1(data).digest()


def test_the_time_of_other_threads_is_theirs() -> None:
    def work() -> None:
        thread = threading.Thread(target=hash_much, args=(0.5,))
        thread.start()
        while thread.is_alive():
            gevent.sleep(0.01)
            signal.raise_signal(signal.SIGPROF)

    profile = sampled(work)
    assert share(profile, "hash_much") + share(profile, "(other threads)") > 0.75
    assert share(profile, "hash_much") > 0.5


def test_waiting_takes_no_time() -> None:
    profile = sampled(lambda: gevent.sleep(0.3))
    assert sum(profile.stacks.values()) < 100_000_000


def test_the_kernel_asks_for_samples() -> None:
    while sampled(lambda: burn(0.1)).samples < 2:
        pass  # a busy host sent no signal


def test_one_runs_at_a_time_and_only_in_the_main_thread() -> None:
    first, second, elsewhere = StackSampler(), StackSampler(), list[bool]()
    assert first.start()
    assert not second.start()
    second.stop()
    burn(0.01)
    assert first.stop().samples > 0
    thread = threading.Thread(target=lambda: elsewhere.append(StackSampler().start()))
    thread.start()
    thread.join()
    assert elsewhere == [False]
    assert second.start()
    second.stop()


def test_nothing_is_left_behind_but_an_ignored_signal() -> None:
    sampled(lambda: burn(0.02))
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
    signal.raise_signal(signal.SIGPROF)  # one that was on its way does not end the process


def test_values_of_variables_are_in_no_stack() -> None:
    def work(password: Any) -> None:
        burn(0.01 if password else 0)

    profile = sampled(lambda: work("s3cret"))
    assert profile.samples
    assert profile.stacks
    assert "s3cret" not in repr(profile)
