"""Coverage-guided fuzzing of what reads data from outside: ``make fuzz``."""
