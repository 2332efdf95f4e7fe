"""A version 1 authentication service: user and key in headers, token and storage URL back."""

from __future__ import annotations

import ssl

from tests.fakes.loopback_http import Answer, LoopbackServer, Request


class AuthV1(LoopbackServer):
    """Gives ``token-1``, ``token-2``, ... to the one who knows the key, at /auth/v1.0."""

    def __init__(
        self,
        user: str = "test:tester",
        key: str = "testing",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(tls=tls)
        self.user, self.key = user, key
        self.logins = 0
        self.storage_url = f"{self.url}/v1/AUTH_test"

    @property
    def auth_url(self) -> str:
        return f"{self.url}/auth/v1.0"

    def answer(self, request: Request) -> Answer:
        if request.path != "/auth/v1.0":
            return Answer(404)
        given = (request.headers.get("X-Auth-User"), request.headers.get("X-Auth-Key"))
        # http.server reads headers as Latin-1; Swift takes them for UTF-8.
        if tuple(g and g.encode("latin-1").decode() for g in given) != (self.user, self.key):
            return Answer(401)
        self.logins += 1
        return Answer(
            200,
            {
                "X-Storage-Url": self.storage_url,
                "X-Auth-Token": f"token-{self.logins}",
                "X-Auth-Token-Expires": "86400",
            },
        )
