"""ssbench at size: hundreds of workers, thousands of users, millions of objects, on one host.

Real workers (ssbench.worker.worker.Worker with its threads and sockets) with the no-op driver,
many in one process; the real ``ssbench-master``, watched from outside. ``python -m
benchmarks.scale -h``.
"""
