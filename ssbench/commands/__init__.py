"""The commands of ssbench-master: a module or package each."""
