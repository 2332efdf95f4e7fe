"""Counts that merge: latencies and sums, of batches of results taken apart by columns."""
