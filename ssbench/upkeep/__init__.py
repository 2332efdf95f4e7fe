"""Preparation of the store before a run, and cleanup after it."""
