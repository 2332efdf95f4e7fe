"""The child: a real Keystone (v3) under wsgiref, with sqlite and fernet tokens.

``python -m tests.servers.keystone_server FD`` reads its settings, one line of JSON, from stdin,
serves on the listening socket FD, and ends when stdin does.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import socket
import sys
import threading
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from tests.ports import QUEUE_SIZE

KEY_DIRS = ("fernet_tokens", "fernet_receipts", "credential")


def main() -> None:
    fd = int(sys.argv[1])
    settings = json.loads(sys.stdin.readline())
    threading.Thread(target=end_with_parent, daemon=True).start()
    conf = write_conf(Path(settings["top"]))
    application = make_application(conf, settings)
    Server(socket.socket(fileno=fd), application).serve_forever()


def end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


def write_conf(top: Path) -> Path:
    """keystone.conf and the key repositories that it names."""
    sections = [f"[database]\nconnection = sqlite:///{top}/keystone.db"]
    for name in KEY_DIRS:
        keys = top / name
        keys.mkdir(mode=0o700)
        for number in ("0", "1"):
            (keys / number).touch(mode=0o600)
            (keys / number).write_bytes(base64.urlsafe_b64encode(secrets.token_bytes(32)))
        sections.append(f"[{name}]\nkey_repository = {keys}")
    # The fewest rounds that bcrypt allows: nobody attacks this one.
    sections.append("[identity]\npassword_hash_rounds = 4")
    sections.append("[cache]\nenabled = true\nbackend = dogpile.cache.memory_pickle")
    conf = top / "keystone.conf"
    conf.write_text("\n".join(sections) + "\n")
    return conf


def make_application(conf: Path, settings: dict[str, str]) -> Any:
    # Keystone reads sys.argv at import.
    sys.argv[1:] = []
    import keystone.server
    from keystone.cmd.bootstrap import Bootstrapper
    from keystone.common.sql import upgrades
    from keystone.server.flask import application, core

    keystone.server.configure(config_files=[str(conf)])
    upgrades.offline_sync_database_to_version()
    first = Bootstrapper()
    first.admin_username = "admin"
    first.admin_password = settings["password"]
    first.project_name = "admin"
    first.admin_role_name = "admin"
    first.service_name = "keystone"
    first.public_url = first.internal_url = first.admin_url = settings["url"]
    first.region_id = "RegionOne"
    first.bootstrap()
    return core.setup_app_middleware(application.application_factory("public"))


class QuietHandler(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


class Server(WSGIServer):
    """wsgiref's server on a socket that is bound already."""

    request_queue_size = QUEUE_SIZE

    def __init__(self, listener: socket.socket, application: Any) -> None:
        super().__init__(("", 0), QuietHandler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.server_name, self.server_port = listener.getsockname()[:2]
        self.setup_environ()
        self.server_activate()
        self.set_app(application)


if __name__ == "__main__":
    main()
