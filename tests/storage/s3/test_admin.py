"""The cold half of the driver for S3: stores that differ from what the contract test runs on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ssbench.core.errors import StorageError
from ssbench.core.settings import Credentials, StorageSettings
from ssbench.storage.s3.admin import S3Admin
from tests.fakes.loopback_http import Answer, LoopbackServer, Request
from tests.fakes.s3_store import refusal

LISTING = b"<ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>"


class Bucket(LoopbackServer):
    """A bucket that is there once it was made, and has what its responses say."""

    def __init__(self) -> None:
        super().__init__()
        self.is_there = False
        self.listing, self.buckets, self.versioning = LISTING, b"", b""

    def answer(self, request: Request) -> Answer:
        path, _, query = request.path.partition("?")
        if path == "/":
            return Answer(200, {}, self.buckets)
        if request.method == "PUT":
            self.is_there = True
            return Answer(200)
        if not self.is_there:
            return refusal(404, "NoSuchBucket")
        if "uploads=" in query:
            return refusal(501, "NotImplemented")
        if "versioning=" in query:
            return Answer(200, {}, self.versioning)
        if request.method == "DELETE" and path.count("/") == 1:
            if self.versioning:
                return refusal(409, "BucketNotEmpty")
            self.is_there = False
        return Answer(204) if request.method == "DELETE" else Answer(200, {}, self.listing)


@pytest.fixture
def store() -> Iterator[Bucket]:
    with Bucket() as made:
        yield made


@pytest.fixture
def admin(store: Bucket) -> Iterator[S3Admin]:
    access = Credentials(1, None, {"region": "us-east-1"})
    made = S3Admin(StorageSettings("s3", store={"urls": (store.url,)}, credentials=(access,)))
    yield made
    made.close()


def test_versions_that_keep_a_bucket_are_named(store: Bucket, admin: S3Admin) -> None:
    admin.make_container("ssbench_000000")
    store.versioning = (
        b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    )
    with pytest.raises(StorageError, match=r"keeps versions of deleted .*BucketNotEmpty"):
        admin.delete_container("ssbench_000000")


def test_a_store_without_version_2_of_listings_keeps_nothing(store: Bucket, admin: S3Admin) -> None:
    store.listing = b"<ListBucketResult><Marker></Marker></ListBucketResult>"
    with pytest.raises(StorageError, match="no ListObjectsV2"):
        admin.make_container("ssbench_000000")
    assert not store.is_there


def test_a_list_of_buckets_may_have_another_root(store: Bucket, admin: S3Admin) -> None:
    store.buckets = b"<All><Buckets><Bucket><Name>ssbench-000000</Name></Bucket></Buckets></All>"
    assert [each.name for each in admin.list_containers("", "", 9)] == ["ssbench_000000"]
    store.buckets = b"<html></html>"
    with pytest.raises(StorageError, match="expected ListAllMyBucketsResult in XML, and this is h"):
        admin.list_containers("", "", 9)
