"""``cleanup-containers``."""
