"""``replay`` and ``make-scenario``: access logs, and what containers hold."""
