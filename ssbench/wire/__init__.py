"""What goes between master and workers, over ZeroMQ, and who is let in. Only here is zmq loaded."""
