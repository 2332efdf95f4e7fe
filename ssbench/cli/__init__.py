"""The roof: arguments, environment, signals, exit statuses, printing."""
