"""The messages of a no-op run and nothing else: what pyzmq can do on this machine.

python pushpull.py BATCH USERS     as many operations as with ssbench are on their way

One process pushes messages with jobs to three others, and each answers with the message of results
that ssbench's worker would send. Nothing is drawn, unpacked, counted or recorded.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time

import zmq

from ssbench.core.columns import pack_results
from ssbench.core.messages import Jobs, Results, encode, pack
from ssbench.core.model import NONE_NS, Job, Result
from ssbench.core.operations import READ

_WORKERS = 3
_COUNT = 100_000  #: messages: some tenths of a second
#: Jobs that ssbench's master sends to each worker beyond its users.
_AHEAD = 32


def messages(batch: int) -> tuple[bytes, bytes]:
    """One with so many jobs, one with their results."""
    numbers = range(1000, 1000 + batch)
    jobs = [Job(number, READ, 0, number % 7, 0, 4096) for number in numbers]
    results = [
        Result(
            number, READ, 0, number % 7, NONE_NS, 10**9 + number, 900, 950, 1000, 4096,
            0, 0, 0, 0, 0, 0, 200, 0, 0,
        )
        for number in numbers
    ]  # fmt: skip
    packed = pack(pack_results(results))
    return (
        encode(Jobs("0" * 16, 1, 1000, 10**15, pack(jobs))),
        encode(Results(1, "0" * 16, 1, [1000], packed)),
    )


def work(place: str, answer: bytes) -> None:
    """A worker: as many answers as messages, until it is killed."""
    context = zmq.Context()
    jobs, results = context.socket(zmq.PULL), context.socket(zmq.PUSH)
    jobs.connect(f"ipc://{place}/jobs")
    results.connect(f"ipc://{place}/results")
    while True:
        jobs.recv()
        results.send(answer)


def main() -> None:
    """Print how many operations were answered, and in what time."""
    batch, users = map(int, sys.argv[1:])
    message, answer = messages(batch)
    ahead = max((users + _WORKERS * _AHEAD) // batch, _WORKERS)
    with tempfile.TemporaryDirectory(prefix="ssbench-bench-") as place:
        pids = []
        for _ in range(_WORKERS):
            pid = os.fork()
            if not pid:
                work(place, answer)
            pids.append(pid)
        try:
            context = zmq.Context()
            jobs, results = context.socket(zmq.PUSH), context.socket(zmq.PULL)
            jobs.bind(f"ipc://{place}/jobs")
            results.bind(f"ipc://{place}/results")
            for _ in range(20 * _WORKERS):  # all have connected, and are warm
                jobs.send(message)
                results.recv()
            began = time.perf_counter()
            for sent in range(_COUNT):
                jobs.send(message)
                if sent >= ahead:
                    results.recv()
            for _ in range(ahead):
                results.recv()
            print(f"SAYS {_COUNT * batch} {time.perf_counter() - began:.6f}")
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
