"""This host: facts, live metrics, limits, and private files."""
