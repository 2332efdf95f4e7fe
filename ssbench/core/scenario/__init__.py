"""What a user wrote -> a Scenario, or what is wrong with it, where, and what would be right."""
