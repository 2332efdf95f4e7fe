"""Messages between master and workers over ZeroMQ, and authentication. Nothing else imports zmq.

========= =================================== ==================
channel   pattern                             default port
========= =================================== ==================
work      master PUSH -> worker PULL          13579
results   worker PUSH -> master PULL          13580
control   master PUB -> worker SUB            13581
========= =================================== ==================

The master binds, workers connect. Sockets are plain ones, never zmq.green: a worker watches their
file descriptors with its own event loop, the master polls.
"""
