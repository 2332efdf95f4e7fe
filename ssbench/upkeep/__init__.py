"""What is done to the store around a run: containers made before it, objects cleared away after."""
