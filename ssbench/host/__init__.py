"""This machine: its description, live metrics, and the user's private folder."""
