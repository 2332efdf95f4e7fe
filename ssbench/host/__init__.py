"""This machine: what it is, how it fares, and the folder on it that is our user's own."""
