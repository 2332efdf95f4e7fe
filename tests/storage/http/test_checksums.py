"""Checksums, by the check values of the catalogue of CRC algorithms (of "123456789")."""

from __future__ import annotations

import pytest

from ssbench.core.scenario.values import CHECKSUMS
from ssbench.storage.http.connection import Upload
from ssbench.storage.http.response import Collector
from ssbench.storage.http.verify import SummedBody, begin_of, sum_of

CHECK = b"123456789"
RIGHT = {
    "crc32c": "e3069283",
    "crc64nvme": "ae8b14860a799888",
    "sha256": "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
    "md5": "25f9e794323b453885f5181f1b624d0b",
}


@pytest.mark.parametrize("name", RIGHT)
def test_the_sum_of_an_upload_in_any_pieces(name: str) -> None:
    assert {"none", *RIGHT} == {*CHECKSUMS}
    whole = Upload(9, CHECK)
    view = memoryview(CHECK)
    pieces = Upload(9, view[:2], lambda: iter([view[2:3], view[3:3], view[3:]]))
    assert {sum_of(begin_of(name), each).hex() for each in (whole, pieces)} == {RIGHT[name]}


@pytest.mark.parametrize("inner", [True, False])
@pytest.mark.parametrize(
    ("stated", "wrong"), [(RIGHT["sha256"], False), ("00" * 32, True), ("", True), (None, False)]
)
def test_a_body_is_summed_as_it_arrives(stated: str | None, wrong: bool, inner: bool) -> None:
    claimed = None if stated is None else bytes.fromhex(stated)
    kept = Collector() if inner else None
    body = SummedBody(9, begin_of("sha256"), lambda headers: claimed, kept)
    for part in (CHECK[:4], CHECK[4:]):
        body.add(memoryview(part))
    assert bool(body.mismatch()) == wrong
    assert kept is None or bytes(kept.body) == CHECK
