"""What ssbench reports against what a server of known delays logged: see __main__."""
