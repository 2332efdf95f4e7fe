"""The TLS context for a run's settings."""

from __future__ import annotations

import ssl

from ssbench.core.errors import UsageError
from ssbench.core.settings import StorageSettings


def client_context(settings: StorageSettings) -> ssl.SSLContext:
    """A context that verifies servers by the settings' CA bundle or the system's, unless insecure.

    :raises UsageError: a certificate or key can't be read.
    """
    try:
        context = ssl.create_default_context(cadata=settings.cacert_pem or None)
        if settings.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if settings.cert_path:
            context.load_cert_chain(settings.cert_path, settings.cert_key_path or None)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        place = f" {settings.cert_path}" if settings.cert_path else ""
        raise UsageError(f"TLS certificate{place} can't be used: {error}") from error
    return context
