"""A long run against a real Swift while workers die, stop and are cut off, and the store fails.

    python -m benchmarks.soak --minutes 30 --seed 1

It ends with a table and exit status 1 where memory grew, somebody hung, or an operation is not
accounted for.
"""
