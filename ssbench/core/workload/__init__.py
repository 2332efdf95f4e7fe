"""Which jobs there are, on which objects, and when they are due."""
