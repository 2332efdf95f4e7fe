"""Reads xz files in bounded memory: such a file itself says how much of it a decoder needs."""

from __future__ import annotations

from io import BufferedReader, RawIOBase
from lzma import FORMAT_XZ, LZMADecompressor, LZMAError

__all__ = ["LZMAError", "open_xz"]

_MOST_MEMORY = 128 << 20  #: bytes; twice what files of xz -9 need
_PIECE = 64 << 10


def open_xz(raw: BufferedReader) -> BufferedReader:
    """The content of a file; reading it raises LZMAError or EOFError where it is damaged, and
    LZMAError where it needs too much memory."""
    return BufferedReader(_Content(raw))


class _Content(RawIOBase):
    def __init__(self, raw: BufferedReader) -> None:
        self._raw = raw
        self._decoder = _decoder()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while True:
            data = b""
            if self._decoder.eof:  # another stream may follow, after zeros
                data = self._decoder.unused_data.lstrip(b"\0")
                while not data:
                    piece = self._raw.read(_PIECE)
                    if not piece:
                        return 0
                    data = piece.lstrip(b"\0")
                self._decoder = _decoder()
            elif self._decoder.needs_input:
                data = self._raw.read(_PIECE)
                if not data:
                    raise EOFError("it ends within a stream")
            if found := self._decoder.decompress(data, len(buffer)):
                buffer[: len(found)] = found
                return len(found)


def _decoder() -> LZMADecompressor:
    return LZMADecompressor(FORMAT_XZ, memlimit=_MOST_MEMORY)
