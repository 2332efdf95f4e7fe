"""What is in flight, which workers are here, and what to send next."""
