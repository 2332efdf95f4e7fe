"""``upload``, ``download``, and Swift Profiler's command line."""
