"""The embedded Swift as four processes, so that a test can take one of them away."""

from __future__ import annotations

from collections.abc import Sequence

from ssbench.embedded.launcher import EmbeddedSwift, bound_socket
from ssbench.embedded.plan import ROLES


class FourProcessSwift(EmbeddedSwift):
    """Account, container, object and proxy server, each on its own.

    Without its object server the proxy answers object requests with 503.
    """

    layout: Sequence[Sequence[str]] = tuple((role,) for role in ROLES)

    def kill(self, role: str) -> None:
        """End the process of a role at once, as a crash would."""
        process = self._processes.pop((role,))
        process.kill()
        process.communicate()

    def revive(self, role: str) -> None:
        """Start the process of a role anew, on the port that it had, and wait for it."""
        with bound_socket(self.plan.options.host, self.plan.ports[role]) as listener:
            self._spawn((role,), {role: listener})
        self._wait_until_ready()
