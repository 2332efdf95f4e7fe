"""The commands: arguments, environment, signals, exit statuses, printing."""
