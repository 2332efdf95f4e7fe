"""Stat files: the records of a run on disk, written and read block by block.

See docs/reference/stat-file.rst for the format. Files of ssbench 0.3.9 can be read as well.
"""

from ssbench.statfile.reader import StatFileReader, existing_path, read
from ssbench.statfile.writer import StatFileWriter, check_new, default_path, is_being_written

__all__ = [
    "StatFileReader",
    "StatFileWriter",
    "check_new",
    "default_path",
    "existing_path",
    "is_being_written",
    "read",
]
