"""Other clients of Swift, each a program of its own that prints ``SAYS requests seconds``."""
