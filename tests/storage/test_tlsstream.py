"""TLS between two ends of one process, without a certificate authority of anyone else's."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import gevent
import pytest

from ssbench.storage.tlsstream import CIPHERTEXT_SIZE, TlsStream
from tests.servers.certificates import Certificates, make_certificates

Server = Callable[[ssl.SSLSocket], None]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("tls"))


@contextmanager
def served(certificates: Certificates, serve: Server) -> Iterator[TlsStream]:
    """A stream whose handshake is done, to a server in a thread."""
    inner = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    inner.load_cert_chain(certificates.certificate, certificates.key)
    outer = ssl.create_default_context(cafile=str(certificates.authority))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()

    def run() -> None:
        theirs.settimeout(5)
        with (
            suppress(OSError),  # the client may leave first
            theirs,
            inner.wrap_socket(theirs, server_side=True) as tls,
        ):
            serve(tls)

    thread = threading.Thread(target=run)
    thread.start()
    ours.setblocking(False)
    stream = TlsStream(ours, outer, "127.0.0.1", memoryview(bytearray(CIPHERTEXT_SIZE)))
    try:
        with gevent.Timeout(5):
            stream.handshake()
            yield stream
    finally:
        stream.close()
        thread.join(5)


def heard(tls: ssl.SSLSocket, count: int) -> bytes:
    """So many bytes from the client."""
    said = b""
    while len(said) < count:
        said += tls.recv(65536)
    return said


def test_what_the_socket_has_no_room_for_goes_out_before_the_answer_is_waited_for(
    certificates: Certificates,
) -> None:
    sent, full = 0, threading.Event()

    def serve(tls: ssl.SSLSocket) -> None:
        tls.sendall(b"hello")
        full.wait(5)
        tls.sendall(b"%d" % len(heard(tls, sent)))

    block, buffer = bytes(100_000), bytearray(100)
    with served(certificates, serve) as stream:
        stream.recv_into(buffer)  # with it, the session tickets
        while not stream._unsent:
            sent += stream.send_parts([block[:1000], block[1000:]])
        with pytest.raises(BlockingIOError):
            stream.send(block)
        full.set()
        assert buffer[: stream.recv_into(buffer)] == b"%d" % sent


def test_all_that_there_is_room_for_is_taken_at_once(certificates: Certificates) -> None:
    blocks = [bytes(100_000)] * 100

    def serve(tls: ssl.SSLSocket) -> None:
        while tls.recv(65536):
            pass

    with served(certificates, serve) as stream:
        while stream.send_parts(blocks) == 10_000_000:
            pass
        # Partly taken: there was no room for the next one, which nobody has to find out.
        assert stream._unsent


def test_all_that_came_is_dropped_at_once(certificates: Certificates) -> None:
    size = 5_000_000

    def serve(tls: ssl.SSLSocket) -> None:
        tls.sendall(bytes(size) + b"end")

    with served(certificates, serve) as stream:
        left, turns = size, 0
        while left:
            left -= stream.discard(left)
            turns += 1
        buffer = bytearray(10)
        assert buffer[: stream.recv_into(buffer)] == b"end"
        assert turns < size / 16384, "not one by one"


def test_what_is_there_is_taken_without_a_wait(certificates: Certificates) -> None:
    def serve(tls: ssl.SSLSocket) -> None:
        heard(tls, 1)
        tls.sendall(b"word")
        heard(tls, 1)

    buffer = bytearray(10)
    with served(certificates, serve) as stream:
        with pytest.raises(BlockingIOError):
            stream.recv_now(buffer)
        stream.send(b"x")
        count = 0
        while not count:
            stream.wait_readable()
            with suppress(BlockingIOError):  # session tickets may come first
                count = stream.recv_now(buffer)
        assert buffer[:count] == b"word"
        stream.send(b"x")


def test_the_end_is_the_end_with_a_farewell_or_without(certificates: Certificates) -> None:
    def farewell(tls: ssl.SSLSocket) -> None:
        tls.unwrap()

    for serve in (farewell, ssl.SSLSocket.close):
        with served(certificates, serve) as stream:
            assert stream.recv_into(bytearray(10)) == 0
            assert stream.recv_now(bytearray(10)) == 0


def test_what_fails_after_records_went_out_was_sent_in_part(certificates: Certificates) -> None:
    """An error would say that nothing of it was; the next attempt to send has the error."""
    with served(certificates, lambda tls: None) as stream:
        left = [1]

        def sent_through(records: bytes) -> None:
            if not left:
                raise BrokenPipeError
            left.pop()

        stream._send_records = sent_through  # type: ignore[method-assign]
        assert stream.send_parts([bytes(300_000)] * 3) == 300_000
        with pytest.raises(BrokenPipeError):
            stream.send_parts([bytes(300_000)])
