"""What watches a run: one state, and sinks that show it."""
