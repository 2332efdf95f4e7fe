"""Hostile peers at the three ports of a real run: rejected and counted, and the run goes on."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress

import pytest
import zmq

from ssbench.core.errors import ExitStatus
from ssbench.core.messages import ControlState, Heartbeat, Host, Ready, encode
from ssbench.core.model import Phase
from tests.e2e.commands import Commands, Ended, Started, finished, free_ports, port_options, until
from tests.fakes.hostile_peers import (
    OTHER_TOOLS,
    OWN_SECRET,
    Listener,
    a_gigabyte_announced,
    call,
    forged,
    greeting,
    hello,
    is_hung_up,
    nasty_frames,
)
from tests.fakes.relay import Relay, Spoils
from tests.fakes.terminal import steering

RUN_S = 3600  #: it is ended once all is done
#: Of the master; bombs of 2 MB unfold into less than 100.
MOST_MEMORY_MB = 400
#: Who doesn't fit the work port, the results port, the control port. (Who fits the first one, and
#: needs no key, may take jobs: the master says so when it begins.)
KINDS = (b"SUB", b"PUSH", b"SUB")


def numbers(ports: Sequence[str]) -> list[int]:
    """Of the work, results and control port."""
    return [int(port) for port in ports[1::2]]


#: A worker that says hello and nothing more is not lost before the run ends, however slow the host.
#: The clean-up waits for it by the connect timeout and 5 s more.
NOBODY_IS_LOST = (
    "--zmq-key-file", "none", "--worker-timeout", 60, "--connect-timeout", 1,
)  # fmt: skip


def begin(commands: Commands, ports: Sequence[str], *options: object) -> Started:
    scenario = commands.scenario(user_count=8)
    return commands.start_run(
        "-f", scenario, "--noop", "-v", "-r", RUN_S, "--think-time", 0.01, "--progress", "chars",
        *options, ports=ports,
    )  # fmt: skip


def peak_mb(pid: int) -> float:
    """The most memory that a process has had."""
    with open(f"/proc/{pid}/status") as status:
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read())
    assert found
    return int(found[1]) / 1000


def end(run: Started) -> Ended:
    """End it once it has had some operations."""
    until("operations", lambda: run.on_disk("READ") > 20)
    run.interrupt()
    return run.wait().fine(ExitStatus.INTERRUPTED)


def must_be_whole(ended: Ended) -> None:
    """Every operation that was sent has one result, and none was lost or failed."""
    stats = ended.stats
    total = stats.total()
    assert (total.errors, stats.run.lost) == (0, 0)
    assert stats.run.sent == total.count == sum(finished(stats).values())
    assert not stats.unaccounted
    assert not steering(ended.err), "what strangers say steers no terminal"


def _runs_with_two_workers(state: ControlState) -> bool:
    return state.phase == Phase.RUN and len(state.workers) == 2


@pytest.mark.parametrize("options", [[], ["--zmq-key-file", "none"]], ids=["key", "no key"])
def test_peers_of_other_protocols_do_not_disturb_a_run(
    commands: Commands, options: list[str]
) -> None:
    ports = free_ports()
    run = begin(commands, ports, *options)
    run.wait_for("Benchmark Run")
    with ExitStack() as opened:
        for port in numbers(ports):
            for said in OTHER_TOOLS.values():
                opened.enter_context(call(port, said))
        for port, kind in zip(numbers(ports), KINDS, strict=True):
            opened.enter_context(call(port, greeting(kind)[:-3]))
            sock = opened.enter_context(call(port, a_gigabyte_announced(kind)))
            assert is_hung_up(sock), f"1 GB for port {port} was not refused"
        memory_mb = peak_mb(run.pid)
        ended = end(run)
    must_be_whole(ended)
    assert ended.stats.run.refused == 0
    assert memory_mb < MOST_MEMORY_MB


def test_malformed_frames_and_impossible_messages_are_rejected(commands: Commands) -> None:
    ports = free_ports()
    _, results, control = numbers(ports)
    run = begin(commands, ports, *NOBODY_IS_LOST)
    with Listener(control, results) as listener:
        state = listener.control_state(
            lambda state: state.phase == Phase.RUN and len(state.workers) == 2
        )
        someone = next(iter(state.workers))
        for frame in (*nasty_frames(), *forged(state), hello("nobody\x1b[2J", someone)):
            listener.send(frame)
        listener.control_state(lambda later: later.serial > state.serial + 1)
        memory_mb = peak_mb(run.pid)
        ended = end(run)
    must_be_whole(ended)
    # All but those that only say that nothing is held or wanted (took, returned, ready, bye).
    assert ended.stats.run.refused >= len(nasty_frames()) + 8
    assert f"rejected (stale or malformed): {ended.stats.run.refused}\n" in ended.out
    assert memory_mb < MOST_MEMORY_MB


def test_with_a_key_frames_of_other_peers_are_dropped(commands: Commands) -> None:
    ports = free_ports()
    _, results, control = numbers(ports)
    run = begin(commands, ports)
    run.wait_for("Benchmark Run")
    frames = nasty_frames()
    with Listener(control, results) as listener:
        listener.send(frames[0])
        with suppress(zmq.Again):  # once it is refused, its socket takes no more of them
            for frame in frames[1:]:
                listener.send(frame)
        ended = end(run)
        assert listener.heard_nothing
    must_be_whole(ended)
    assert ended.stats.run.refused == 0


def test_a_worker_with_absurd_clocks_does_not_end_the_run(commands: Commands) -> None:
    """Two ways to a number of more than 64 bits in a record: the phase's start, the wall clock."""
    ports = free_ports()
    _, results, control = numbers(ports)
    run = begin(commands, ports, *NOBODY_IS_LOST)
    far = (1 << 62) - 1
    with Listener(control, results) as listener:
        state = listener.control_state(
            lambda state: state.phase == Phase.RUN and len(state.workers) == 2
        )
        listener.send(hello("nobody"))
        for clock_ns, wall_ns, origin_ns in ((far, -far, -far), (-far, far, far), (0, 0, far)):
            state = listener.control_state(lambda later, past=state: later.serial > past.serial + 1)
            listener.send(
                encode(Heartbeat(815, state.serial, clock_ns, 0, 0, 0, 0, wall_ns), OWN_SECRET)
            )
            listener.send(encode(Ready(815, state.run, state.phase, False, origin_ns), OWN_SECRET))
            listener.send(encode(Host(815, far, "", {"cpu_percent": 1.0}), OWN_SECRET))
        ended = end(run)
    must_be_whole(ended)


#: What a relay does to some of what a worker sends: gives what it passes on.
RELAYED: dict[str, Spoils] = {
    "cuts off": lambda data: [data[: len(data) // 2], b""],
    "flips a bit of": lambda data: [bytes([*data[:-9], data[-9] ^ 1, *data[-8:]])],
    "replays": lambda data: [data, data],
    "delays": lambda data: [time.sleep(0.2) or data],
}


@pytest.mark.parametrize("does", RELAYED)
def test_a_relay_makes_no_results_and_hides_no_losses(commands: Commands, does: str) -> None:
    """CURVE numbers and authenticates what a worker sends: of a connection on which something does
    not fit, the master reads nothing more."""
    pieces, struck = itertools.count(1), list[int]()

    def spoil(data: bytes) -> Sequence[bytes]:
        number = next(pieces)
        if number % 60 or len(struck) == 2:
            return [data]
        struck.append(number)
        return RELAYED[does](data)

    ports = free_ports()
    key = commands.place / "key"
    commands.call("make-key", key).fine()
    keyed = ("--zmq-key-file", key)
    with ExitStack() as opened:
        relays = [
            opened.enter_context(Relay(port, spoils=spoils))
            for port, spoils in zip(numbers(ports), (None, spoil, None), strict=True)
        ]
        outer = port_options(*(str(relay.port) for relay in relays))
        run = commands.start_run(
            "-f", commands.scenario(user_count=8), "--noop", "-r", RUN_S, "--think-time", 0.01,
            "--expect-workers", 1, "--worker-timeout", 4, "--drain-timeout", 2,
            "--worker-wait", 10, *keyed, workers=None, ports=ports,
        )  # fmt: skip
        run.wait_for("Waiting for workers")
        commands.worker(*keyed, *outer)
        until("work", lambda: struck)
        run.interrupt()
        ended = run.wait()
    assert ended.status == ExitStatus.INTERRUPTED
    assert "Traceback" not in ended.err
    stats = ended.stats
    total = stats.total()
    assert (total.errors, stats.unaccounted) == (0, 0)
    assert stats.run.sent == total.count + stats.run.lost
    assert bool(stats.run.lost) == (f"operations; {stats.run.lost:,} lost\n" in ended.out)
    assert does != "delays" or not stats.run.lost
