"""``browse``."""
