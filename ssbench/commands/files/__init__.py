"""Folders of files: makes them, compares them, and measures how fast they are read and written."""
