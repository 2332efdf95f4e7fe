"""What stores over HTTP have in common."""

from __future__ import annotations

import pytest

from ssbench.storage.http.store import is_initial

OF_50 = {"content-length": "50"}
LETTERS = "x-object-meta-ssbench-letters"
SEGMENTS = "x-object-meta-ssbench-segments"


@pytest.mark.parametrize(
    ("more", "compressible", "segments", "initial"),
    [
        ({}, False, "", True),
        ({"content-length": "51"}, False, "", False),
        ({"x-delete-at": "1700000000"}, False, "", False),
        ({"x-object-meta-ssbench-version": "1"}, False, "", False),
        ({LETTERS: "yes"}, True, "", True),
        ({LETTERS: "yes"}, False, "", False),
        ({}, True, "", False),
        ({SEGMENTS: "slo 40"}, False, "slo 40", True),
        ({SEGMENTS: "slo 40"}, False, "slo 30", False),
        ({SEGMENTS: "slo 40"}, False, "", False),
        ({}, False, "slo 40", False),
        ({LETTERS: "yes", SEGMENTS: "slo 40"}, False, "slo 40", False),
    ],
)
def test_an_initial_object_is_kept_only_as_the_run_would_upload_it(
    more: dict[str, str], compressible: bool, segments: str, initial: bool
) -> None:
    assert is_initial({**OF_50, **more}, 50, compressible, segments) is initial


def test_an_object_of_unknown_size_is_not_initial() -> None:
    assert not is_initial({}, 50, compressible=False)
