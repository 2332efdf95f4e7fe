"""``bench files``, ``gen-files`` and ``diff-dirs``: folders of files."""
