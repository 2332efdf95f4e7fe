"""OpenStack Swift."""
