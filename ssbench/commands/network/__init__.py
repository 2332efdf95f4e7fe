"""``check-network``."""
