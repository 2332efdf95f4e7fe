"""The canned scenarios: package data of ssbench, found by ``ssbench.runner.config``."""
