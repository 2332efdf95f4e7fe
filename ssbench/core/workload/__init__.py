"""The jobs of a run: their operations, objects and due times."""
