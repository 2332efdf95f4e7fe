"""A certificate for loopback, signed by an authority that nobody else has heard of."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificates:
    """Paths of PEM files."""

    authority: Path  #: what a client must trust
    certificate: Path
    key: Path

    def server_context(self, *, asks_client: bool = False) -> ssl.SSLContext:
        """Of a server with this certificate.

        :param asks_client: it demands a certificate of the same authority from clients.
        """
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate, self.key)
        if asks_client:
            context.load_verify_locations(self.authority)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def make_certificates(directory: Path) -> Certificates:
    """Certificates for 127.0.0.1, ::1 and localhost in the directory."""
    import trustme

    authority = trustme.CA()
    server = authority.issue_cert("127.0.0.1", "::1", "localhost")
    made = Certificates(directory / "ca.pem", directory / "cert.pem", directory / "key.pem")
    authority.cert_pem.write_to_path(str(made.authority))
    server.cert_chain_pems[0].write_to_path(str(made.certificate))
    server.private_key_pem.write_to_path(str(made.key))
    return made
