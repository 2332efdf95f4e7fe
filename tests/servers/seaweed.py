"""SeaweedFS (https://github.com/seaweedfs/seaweedfs), written in Go: all of it in one process."""

from __future__ import annotations

import json
import time
import urllib.request
from contextlib import closing
from pathlib import Path

from tests.ports import held_port
from tests.servers.programs import path_of
from tests.servers.s3 import FolderS3
from tests.servers.webdav import DavServer
from tests.timing import PATIENCE_S


def _command(folder: Path) -> list[str]:
    """Each part has a port for HTTP and one for gRPC, which is 10,000 higher unless given."""
    ports = [
        f"-{part}.{port}={held_port()}"
        for part in ("master", "volume", "filer")
        for port in ("port", "port.grpc")
    ]
    # Each bucket takes volumes of its own.
    return [
        path_of("weed"), "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
        "-filer", *ports, "-volume.max=200", "-master.volumeSizeLimitMB=64",
    ]  # fmt: skip


class SeaweedS3(FolderS3):
    secret_key = "Sw7-secret-of-seaweed"

    def command(self, port: int, folder: str) -> list[str]:
        user = {
            "name": "tester",
            "credentials": [{"accessKey": self.access_key, "secretKey": self.secret_key}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        users = Path(folder) / "users.json"
        users.write_text(json.dumps({"identities": [user]}))
        grpc = f"-s3.port.grpc={held_port()}"
        return [*_command(Path(folder)), "-s3", f"-s3.port={port}", grpc, f"-s3.config={users}"]

    def _wait_until_ready(self, port: int) -> None:
        """Until its volumes take an object."""
        from botocore.exceptions import BotoCoreError, ClientError  # loads slowly

        super()._wait_until_ready(port)
        deadline = time.monotonic() + PATIENCE_S
        with closing(self.client()) as client:
            client.create_bucket(Bucket="ready")
            while True:
                try:
                    client.put_object(Bucket="ready", Key="ready", Body=b"ready")
                    break
                except (BotoCoreError, ClientError):
                    assert time.monotonic() < deadline, "SeaweedFS takes no objects"
                    time.sleep(0.2)
            client.delete_object(Bucket="ready", Key="ready")
            client.delete_bucket(Bucket="ready")


class SeaweedDav(DavServer):
    """Asks nobody who he is."""

    def command(self) -> list[str]:
        return [*_command(self.place), "-webdav", f"-webdav.port={self.port}"]

    def start(self) -> None:
        super().start()
        request = urllib.request.Request(f"{self.url}/", method="MKCOL")
        urllib.request.urlopen(request, timeout=PATIENCE_S).close()
