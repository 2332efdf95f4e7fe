"""Access logs: what a line says (``formats``), and all requests of a log (``requests``)."""
