"""``bench``, and nectar's command line: numbered objects."""
