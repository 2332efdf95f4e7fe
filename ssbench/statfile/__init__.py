"""A run on disk: written block by block, read back whole or damaged.

The format is told in docs/stat-file.rst. Files of ssbench 0.3.9 are read as well.
"""

from ssbench.statfile.path import default_path, existing_path
from ssbench.statfile.reader import StatFileReader, read
from ssbench.statfile.writer import StatFileWriter, is_being_written

__all__ = [
    "StatFileReader",
    "StatFileWriter",
    "default_path",
    "existing_path",
    "is_being_written",
    "read",
]
