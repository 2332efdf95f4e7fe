"""A throw-away real OpenStack Swift on loopback, in a process of its own.

Swift runs on eventlet and ssbench on gevent, and the two can't share a process. So this side
(``launcher``, ``workdir``, ``plan``) is plain standard library and may be used anywhere;
``server`` imports Swift and runs only in the child.
"""

from ssbench.embedded.launcher import EmbeddedSwift

__all__ = ["EmbeddedSwift"]
