"""The process of WsgiDav: ``python -m tests.servers.wsgidav_server PORT FOLDER AUTHENTICATION``."""

from __future__ import annotations

import sys

from cheroot import wsgi
from wsgidav.fs_dav_provider import FilesystemProvider
from wsgidav.wsgidav_app import WsgiDAVApp

from tests.servers.webdav import PASSWORD, USER


def main(port: str, folder: str, authentication: str) -> None:
    is_digest = authentication == "digest"
    users = True if authentication == "none" else {USER: {"password": PASSWORD}}
    app = WsgiDAVApp(
        {
            "provider_mapping": {"/dav": FilesystemProvider(folder)},
            "http_authenticator": {
                "accept_basic": not is_digest,
                "accept_digest": is_digest,
                "default_to_digest": is_digest,
            },
            "simple_dc": {"user_mapping": {"*": users}},
            "property_manager": True,
            "lock_storage": True,
            "logging": {"enable": False},
            "verbose": 0,
        }
    )
    wsgi.Server(("127.0.0.1", int(port)), app, numthreads=16, timeout=60).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
