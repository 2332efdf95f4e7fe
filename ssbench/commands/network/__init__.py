"""``check-network``: throughput and round trip between hosts."""
