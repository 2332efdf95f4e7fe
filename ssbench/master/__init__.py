"""The master: waits for workers, runs the phases, sends jobs and records results."""
