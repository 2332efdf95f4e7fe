"""A byte stream for gevent's hub: TLS over TCP.

OpenSSL works on two memory buffers, and we do the socket I/O, as without TLS. So one system call
receives everything available (OpenSSL itself makes two for each record of 16 KiB), one sends
several records, we wait before we read, and we get the kernel's receive timestamps.
``ssl.SSLSocket`` costs a fifth more.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from ssbench.storage.rx_timestamps import ANCILLARY_SIZE, AncillaryData
from ssbench.storage.stream import PlainStream

CIPHERTEXT_SIZE = 256 * 1024  #: bytes of the buffer that a stream must be given
_SEND_SIZE = 256 * 1024  #: bytes of encrypted records to collect before sending them
_RECORD = 16384 + 512  #: bytes of the longest record, including overhead (RFC 8446, 5.2)
_DISCARD_BUFFER = memoryview(bytearray(65536))  #: receives discarded bytes


class TlsStream(PlainStream):
    """A PlainStream over TLS. Call ``handshake`` before anything else.

    :param host: the name that the certificate must match, if the context checks that.
    :param ciphertext: CIPHERTEXT_SIZE bytes, shared by the streams of a hub.
    :raises ValueError: the host can't be in a certificate.
    """

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, host: str, ciphertext: memoryview
    ) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        #: read(count, buffer) -> count
        self._read: Callable[[int, Any], int] = self._tls.read  # type: ignore[assignment] # typeshed
        super().__init__(sock)
        self._ciphertext = ciphertext
        self._unsent = b""  #: records that did not fit into the send buffer
        self._ancillary: AncillaryData = []  #: timestamp of what is in ``_incoming``
        self.send = self._send
        self.send_parts = self._send_parts

    def handshake(self) -> None:
        """Perform the handshake, and verify the server's certificate.

        :raises OSError: including ssl.SSLError.
        """
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                self._fetch()
            except ssl.SSLError:
                with suppress(OSError):
                    self._flush()  # send the alert that tells the server why
                raise
            else:
                return self._flush()

    def recv_into(self, buffer: Any) -> int:
        if self._unsent or self._outgoing.pending:
            self._flush()
        # OpenSSL may hold bytes that are no longer in the socket. If it holds none, reading
        # before waiting would cost an exception.
        if not (self._incoming.pending or self._tls.pending()):
            self._fetch()
        while True:
            try:
                count = self._read(len(buffer), buffer)
            except ssl.SSLWantReadError:  # part of a record, or no data: a session ticket
                self._flush()
                self._fetch()
            except ssl.SSLEOFError:  # closed without close_notify, as many servers do
                return 0
            else:
                self._timestamps.ancillary = self._ancillary  # another stream may have replaced it
                return count

    def discard(self, count: int) -> int:
        dropped = self.recv_into(_DISCARD_BUFFER[:count])
        # Also discard what was received with it: the timestamp is that of the last byte, so it
        # holds for these bytes, too.
        while 0 < dropped < count and self._incoming.pending:
            try:
                dropped += self._read(min(count - dropped, len(_DISCARD_BUFFER)), _DISCARD_BUFFER)
            except (ssl.SSLWantReadError, ssl.SSLEOFError):
                break
        # A partly received record yields more bytes than are still missing: subtract one record.
        self._set_next_wait(count - dropped - _RECORD)
        return dropped

    def recv_now(self, buffer: Any) -> int:
        try:
            return self._read(len(buffer), buffer)
        except ssl.SSLWantReadError:
            self._receive_records()
        except ssl.SSLEOFError:
            return 0
        try:
            return self._read(len(buffer), buffer)
        except ssl.SSLWantReadError as error:
            raise BlockingIOError from error
        except ssl.SSLEOFError:
            return 0

    def _send(self, data: Any) -> int:
        return self._send_parts((data,))

    def _send_parts(self, parts: Sequence[Any]) -> int:
        if self._unsent:
            self._send_records(self._unsent)
            if self._unsent:
                raise BlockingIOError
        taken = sent_through = 0
        try:
            for part in parts:
                view = memoryview(part)
                while view:
                    count = self._tls.write(view)  # one record
                    taken += count
                    view = view[count:]
                    if self._outgoing.pending >= _SEND_SIZE:
                        self._send_records(self._outgoing.read())
                        sent_through = taken
                        if self._unsent:
                            return taken
            if self._outgoing.pending:
                self._send_records(self._outgoing.read())
        except OSError:
            if not sent_through:
                raise
            return (
                sent_through  # an error would mean that nothing was sent; the next call raises it
            )
        return taken

    def _send_records(self, records: bytes) -> None:
        """Send records; what does not fit into the send buffer stays in ``_unsent``."""
        try:
            sent = self._sock.send(records)
        except BlockingIOError:
            sent = 0
        self._unsent = records[sent:] if sent < len(records) else b""

    def _flush(self) -> None:
        """Send unsent records, and those that OpenSSL produced by itself.

        Waits for space in the send buffer, but stops waiting once bytes arrive: the server may
        have stopped reading.
        """
        if self._outgoing.pending:
            self._unsent += self._outgoing.read()
        while self._unsent:
            self._send_records(self._unsent)
            if self._unsent and self.wait_writable():
                return

    def _fetch(self) -> None:
        """Wait for bytes (or the end of the stream), then receive them."""
        while True:
            self.wait_readable()
            try:
                return self._receive_records()
            except BlockingIOError:
                continue  # woken for nothing

    def _receive_records(self) -> None:
        count, self._ancillary, _, _ = self._recvmsg_into((self._ciphertext,), ANCILLARY_SIZE)
        if count:
            self._incoming.write(self._ciphertext[:count])
        else:
            self._incoming.write_eof()
