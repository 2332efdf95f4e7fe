"""``bench files``, ``gen-files`` and ``diff-dirs``."""
