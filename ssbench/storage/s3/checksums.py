"""Checksums of uploads as the AWS SDKs send them: before the content, in a header, or behind it, as
a trailer in aws-chunked coding.

"Checking object integrity" in the Amazon S3 User Guide has the headers, "Signature calculations
for the authorization header: including trailing headers (chunked upload)" in the API Reference the
coding. The content is one chunk, as the SDK for Go sends it. It is not part of the signature then.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Callable, Iterator, Mapping
from itertools import chain

import gevent

from ssbench.storage.http.checksums import Sum, sum_of
from ssbench.storage.http.connection import Upload

#: Line of a GET that asks for the checksum of the object.
WANTED = "x-amz-checksum-mode: ENABLED\r\n"
_UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
_YIELD_AFTER = 1024 * 1024  #: bytes that are summed before other greenlets run


def begin_lines(name: str) -> str:
    """Header lines of the request that begins a multipart upload."""
    if name in ("none", "md5"):
        return ""
    # Of the others an object in parts has a checksum of the parts' checksums.
    whole = "x-amz-checksum-type: FULL_OBJECT\r\n" if name == "crc64nvme" else ""
    return f"x-amz-checksum-algorithm: {name.upper()}\r\n{whole}"


def stated(name: str, headers: Mapping[str, str]) -> bytes | None:
    """The checksum of the whole object that a response states; None: none."""
    text = headers.get(f"x-amz-checksum-{name}", "")
    if not text or "-" in text or headers.get("x-amz-checksum-type", "") == "COMPOSITE":
        return None
    try:
        return b64decode(text, validate=True)
    except Error:
        return b""  # which is no object's


class Summed:
    """An upload with its checksum.

    :param name: as of values.CHECKSUMS, but "none".
    :param payload_hash: gives what the signature covers of an upload; None: nothing.
    """

    def __init__(
        self,
        upload: Upload,
        name: str,
        begin: Callable[[], Sum],
        payload_hash: Callable[[Upload], str],
        *,
        in_trailer: bool,
    ) -> None:
        self._name, self._begin = name, begin
        self.text = ""  #: the checksum, in base64; in a trailer, once it is sent
        if in_trailer:
            self.upload, self.payload_hash = self._coded(upload), _UNSIGNED_TRAILER
            self.lines = (
                f"content-encoding: aws-chunked\r\nx-amz-decoded-content-length: {upload.size}\r\n"
                f"x-amz-sdk-checksum-algorithm: {name.upper()}\r\n"
                f"x-amz-trailer: x-amz-checksum-{name}\r\n"
            )
            return
        digest = sum_of(begin, upload)
        self.upload, self.text = upload, b64encode(digest).decode()
        self.lines = f"content-md5: {self.text}\r\n" if name == "md5" else (
            f"x-amz-checksum-{name}: {self.text}\r\n"
            f"x-amz-sdk-checksum-algorithm: {name.upper()}\r\n"
        )  # fmt: skip
        # What is signed is the same sum: one is enough.
        self.payload_hash = payload_hash(upload) if name != "sha256" else digest.hex()

    @property
    def element(self) -> str:
        """The checksum in XML, of a part that was sent; "" for md5, which has no element."""
        name = f"Checksum{self._name.upper()}"
        return f"<{name}>{self.text}</{name}>" if self._name != "md5" else ""

    def _coded(self, upload: Upload) -> Upload:
        head = f"{upload.size:x}\r\n".encode() if upload.size else b""
        end = b"\r\n0\r\n" if upload.size else b"0\r\n"
        digits = b64encode(bytes(len(self._begin().digest())))
        trailer = f"x-amz-checksum-{self._name}:".encode()
        size = sum(map(len, (head, end, trailer, digits, b"\r\n\r\n"))) + upload.size

        def pieces() -> Iterator[memoryview]:
            found, summed = self._begin(), 0
            yield memoryview(head)
            for piece in chain((memoryview(upload.first),), upload.rest() if upload.rest else ()):
                found.update(piece)
                yield piece
                summed += len(piece)
                if summed >= _YIELD_AFTER:
                    summed = 0
                    gevent.sleep(0)
            text = b64encode(found.digest())
            self.text = text.decode()
            yield memoryview(b"".join((end, trailer, text, b"\r\n\r\n")))

        return Upload(size, b"", pieces, upload.expects, upload.one_by_one)
