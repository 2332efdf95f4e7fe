"""A Keystone that still speaks v2.0: ``POST /v2.0/tokens`` and a catalog."""

from __future__ import annotations

from tests.fakes.loopback_http import Answer, LoopbackServer, Request

EXPIRES = "2999-01-01T00:00:00Z"


class KeystoneV2(LoopbackServer):
    """Knows one user in one tenant. ``catalog`` may be replaced."""

    def __init__(self, user: str = "me", key: str = "pass-2", tenant: str = "bench") -> None:
        super().__init__()
        self.user, self.key, self.tenant = user, key, tenant
        self.logins = 0
        self.catalog = [
            {
                "type": "object-store",
                "name": "swift",
                "endpoints": [
                    {
                        "region": region,
                        "publicURL": f"http://{region}.test/v1/KEY_{tenant}",
                        "internalURL": f"http://{region}.internal/v1/KEY_{tenant}",
                    }
                    for region in ("north", "south")
                ],
            },
            {"type": "identity", "name": "keystone", "endpoints": []},
        ]

    def answer(self, request: Request) -> Answer:
        if (request.method, request.path) != ("POST", "/v2.0/tokens"):
            return Answer.of(404, {"error": {"message": "Not Found", "code": 404}})
        auth = request.json()["auth"]
        known = {"username": self.user, "password": self.key}
        by_token = auth.get("token") == {"id": "given-token"}
        if not by_token and auth.get("passwordCredentials") != known:
            return Answer.of(401, {"error": {"message": "Invalid user / password", "code": 401}})
        if auth.get("tenantName") != self.tenant:
            return Answer.of(401, {"error": {"message": "no such tenant", "code": 401}})
        self.logins += 1
        token = {
            "id": f"v2-token-{self.logins}",
            "expires": EXPIRES,
            "tenant": {"id": "t1", "name": self.tenant},
        }
        user = {"id": "u1", "name": self.user, "roles": []}
        access = {"token": token, "user": user, "serviceCatalog": self.catalog}
        return Answer.of(200, {"access": access})
