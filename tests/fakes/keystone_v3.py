"""A Keystone v3: ``POST /v3/auth/tokens`` with password, token or application credential."""

from __future__ import annotations

import ssl
from typing import Any

from tests.fakes.loopback_http import Answer, LoopbackServer, Request


class KeystoneV3(LoopbackServer):
    """Knows one user in one project. Tokens are valid for as long as ``expires`` says."""

    def __init__(
        self,
        user: str = "me",
        key: str = "pass-3",
        project: str = "bench",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(tls=tls)
        self.user, self.key, self.project = user, key, project
        self.user_domain = {"id": "default"}
        self.expires = "2999-01-01T00:00:00.000000Z"
        self.logins = 0
        self.catalog: list[dict[str, Any]] = [
            {
                "type": "object-store",
                "name": "swift",
                "id": "s1",
                "endpoints": [
                    {
                        "id": f"{interface}-{region}",
                        "interface": interface,
                        "region": region,
                        "region_id": region,
                        "url": f"http://{region}.{interface}.test/v1/KEY_{project}",
                    }
                    for region in ("north", "south")
                    for interface in ("public", "internal")
                ],
            },
            {"type": "image", "name": "glance", "id": "s2", "endpoints": []},
        ]

    def answer(self, request: Request) -> Answer:
        if (request.method, request.path) != ("POST", "/v3/auth/tokens"):
            return Answer.of(404, {"error": {"message": "Not Found", "code": 404}})
        auth = request.json()["auth"]
        if not self._is_known(auth["identity"]):
            return Answer.of(401, {"error": {"message": "Unauthorized", "code": 401}})
        self.logins += 1
        token = {
            "methods": auth["identity"]["methods"],
            "expires_at": self.expires,
            "issued_at": "2020-01-01T00:00:00.000000Z",
            "user": {"id": "u1", "name": self.user, "domain": {"id": "default", "name": "D"}},
            "project": {"id": "p1", "name": self.project, "domain": {"id": "default"}},
            "catalog": self.catalog,
        }
        return Answer.of(201, {"token": token}, X_Subject_Token=f"v3-token-{self.logins}")

    def _is_known(self, identity: dict[str, Any]) -> bool:
        known = {
            "password": {
                "user": {"name": self.user, "password": self.key, "domain": self.user_domain}
            },
            "token": {"id": "given-token"},
            "application_credential": {"id": "app-id", "secret": "app-secret"},
        }
        (method,) = identity["methods"]
        return bool(identity[method] == known[method])
