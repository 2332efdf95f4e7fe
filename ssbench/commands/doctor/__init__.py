"""``doctor``."""
