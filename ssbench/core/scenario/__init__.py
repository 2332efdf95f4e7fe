"""Reads scenarios. Errors say what is wrong, where, and what would be right."""
