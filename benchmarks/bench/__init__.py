"""How fast ssbench is, beside references that run in the same minutes: see __main__."""
