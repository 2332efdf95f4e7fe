"""Real servers that only the tests need, beside the embedded Swift that ships."""
