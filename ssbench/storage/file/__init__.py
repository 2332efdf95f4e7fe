"""Files of a directory."""
