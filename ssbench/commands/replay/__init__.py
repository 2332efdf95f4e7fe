"""Access logs, and what containers hold."""
