"""Real servers that speak S3."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config

from ssbench.embedded import EmbeddedSwift, SwiftOptions

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


class SwiftS3(S3Server):
    """The embedded Swift's s3api. Checks signatures, and dates to 15 minutes.

    :param options: of the embedded Swift.
    """

    access_key = "test:tester"

    def __init__(self, secret_key: str = "testing", **options: Any) -> None:
        self.secret_key = secret_key
        conf = {
            "filter:s3api": {"storage_domain": "s3.localhost"},
            "filter:tempauth": {"user_test_tester": f"{secret_key} .admin"},
        }
        self.swift = EmbeddedSwift(SwiftOptions(proxy_conf=conf, **options))

    def __enter__(self) -> S3Server:
        self.swift.start()
        self.url = self.swift.base_url
        return self

    def __exit__(self, *exc: object) -> None:
        self.swift.stop()
