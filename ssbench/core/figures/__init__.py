"""What counts add up to: a run's figures, whether they can be trusted, and how runs differ."""
