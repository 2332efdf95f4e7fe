"""Real servers that speak S3."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ssbench.embedded import EmbeddedSwift
from ssbench.embedded.plan import Sections
from tests.ports import held_port
from tests.servers.programs import path_of
from tests.servers.swift import swift_options
from tests.timing import PATIENCE_S

REGION = "us-east-1"


class S3Server:
    """A context manager. ``url`` is its endpoint; the user owns all buckets."""

    access_key = ""
    secret_key = ""
    url = ""

    def __enter__(self) -> S3Server:
        return self

    def __exit__(self, *exc: object) -> None: ...

    @property
    def environment(self) -> dict[str, str]:
        """The variables that give access to it."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": REGION,
        }

    @property
    def options(self) -> list[str]:
        """Of ssbench-master."""
        return ["--storage", "s3", "--s3-endpoint", self.url]

    def client(self) -> Any:
        """The test's own way into the store: botocore, nothing of ours."""
        import boto3  # loads slowly
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name=REGION,
            config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}),
        )

    def make_bucket(self, name: str) -> None:
        """Make a bucket that ssbench did not make."""
        self.client().create_bucket(Bucket=name)

    def contents(self) -> dict[str, list[str]]:
        """Bucket -> keys of its objects."""
        client = self.client()
        return {
            bucket["Name"]: [
                entry["Key"]
                for entry in client.list_objects_v2(Bucket=bucket["Name"]).get("Contents", ())
            ]
            for bucket in client.list_buckets()["Buckets"]
        }


class FolderS3(S3Server):
    """A program that serves a folder, which goes away with it."""

    access_key = "user"

    def command(self, port: int, folder: str) -> list[str]:
        raise NotImplementedError

    def __enter__(self) -> FolderS3:
        port = held_port()
        self.url = f"http://127.0.0.1:{port}"
        variables = {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}
        with ExitStack() as opened:
            folder = opened.enter_context(TemporaryDirectory(prefix="ssbench-s3-"))
            self._process = subprocess.Popen(
                self.command(port, folder), env={**os.environ, **variables}, cwd=folder,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            opened.callback(self._end)
            self._wait_until_ready(port)
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._opened.close()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _wait_until_ready(self, port: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while self._process.poll() is None and time.monotonic() < deadline:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            time.sleep(0.05)
        raise AssertionError(f"{type(self).__name__} does not start")


class VersityGW(FolderS3):
    """Versity's S3 gateway over a folder (https://github.com/versity/versitygw), written in Go."""

    secret_key = "Vg5-secret-of-the-gateway"

    def command(self, port: int, folder: str) -> list[str]:
        places = [Path(folder, name) for name in ("objects", "versions", "users")]
        for place in places:
            place.mkdir()
        objects, versions, users = map(str, places)
        address = f"127.0.0.1:{port}"
        return [path_of("versitygw"), "--quiet", "--port", address, "--iam-dir", users, "posix",
                "--versioning-dir", versions, objects]  # fmt: skip

    def make_user(self, access_key: str, secret_key: str) -> None:
        """One who may make buckets, and sees no others."""
        self._administer(
            "create-user", "--access", access_key, "--secret", secret_key, "--role", "userplus"
        )

    def delete_user(self, access_key: str) -> None:
        self._administer("delete-user", "--access", access_key)

    def _administer(self, *words: str) -> None:
        subprocess.run(
            [path_of("versitygw"), "admin", "--endpoint-url", self.url, *words],
            env={**os.environ, "ADMIN_ACCESS_KEY": self.access_key,
                 "ADMIN_SECRET_KEY": self.secret_key},
            check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_S,
        )  # fmt: skip


class RcloneS3(FolderS3):
    """``rclone serve s3`` (https://rclone.org) over a folder, written in Go."""

    secret_key = "Rc7-secret-of-rclone"

    def command(self, port: int, folder: str) -> list[str]:
        keys = f"{self.access_key},{self.secret_key}"
        address = f"127.0.0.1:{port}"
        return [path_of("rclone"), "serve", "s3", folder, "--addr", address, "--auth-key", keys]


class SwiftS3(S3Server):
    """The embedded Swift's s3api. Checks signatures, and dates to 15 minutes.

    :param more_conf: for proxy-server.conf.
    :param options: of the embedded Swift.
    """

    access_key = "test:tester"

    def __init__(
        self, secret_key: str = "testing", more_conf: Sections | None = None, **options: Any
    ) -> None:
        self.secret_key = secret_key
        conf = {
            "filter:s3api": {"storage_domain": "127.0.0.1"},
            "filter:tempauth": {"user_test_tester": f"{secret_key} .admin"},
            **(more_conf or {}),
        }
        self.swift = EmbeddedSwift(swift_options(proxy_conf=conf, **options))

    def __enter__(self) -> S3Server:
        self.swift.start()
        self.url = self.swift.base_url
        return self

    def __exit__(self, *exc: object) -> None:
        self.swift.stop()
