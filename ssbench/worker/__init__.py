"""The worker: receives jobs, lets its users perform them, and sends results."""
