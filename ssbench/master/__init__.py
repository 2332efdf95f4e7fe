"""The master: knows who works, sends jobs out phase by phase, and keeps what comes back."""
