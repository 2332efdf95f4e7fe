"""A certificate for loopback, signed by an authority that nobody else has heard of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificates:
    """Paths of PEM files."""

    authority: Path  #: what a client must trust
    certificate: Path
    key: Path


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
