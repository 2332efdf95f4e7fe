"""The application: runs, series of runs, cleanups; no options, no printing, no signals."""
