"""Pure decisions and data types: no sockets, files, clocks, environment or event loop."""
