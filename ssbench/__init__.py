"""ssbench: a benchmark suite for OpenStack Swift and other object stores."""

__version__ = "1.0.0"

__all__ = ["__version__"]
