"""A real OpenStack Swift on loopback, in a process of its own, with temporary data.

Swift runs on eventlet and ssbench on gevent, and the two can't share a process. The parent's side
(``launcher``, ``plan``) uses only the standard library. ``server`` and ``direct``
import Swift and run only in the child.
"""

from ssbench.embedded.launcher import EmbeddedSwift
from ssbench.embedded.plan import SwiftOptions

__all__ = ["EmbeddedSwift", "SwiftOptions"]
