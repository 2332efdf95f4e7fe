"""Compares ssbench's reports with the log of a server of known delays: see __main__."""
