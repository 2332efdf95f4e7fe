"""Multistatus responses: those of Apache, nginx and wsgidav, as recorded, and invalid ones."""

from __future__ import annotations

import pytest

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Timing
from ssbench.storage.webdav.client import Multistatus

TIMING = Timing(1, 1, 1, 0, 207)
APACHE = b"""<?xml version="1.0" encoding="utf-8"?>
<D:multistatus xmlns:D="DAV:" xmlns:ns0="DAV:">
<D:response xmlns:lp1="DAV:" xmlns:g0="DAV:">
<D:href>/dav/c/</D:href>
<D:propstat>
<D:prop>
<lp1:resourcetype><D:collection/></lp1:resourcetype>
</D:prop>
<D:status>HTTP/1.1 200 OK</D:status>
</D:propstat>
<D:propstat>
<D:prop>
<g0:getcontentlength/>
</D:prop>
<D:status>HTTP/1.1 404 Not Found</D:status>
</D:propstat>
</D:response>
<D:response xmlns:lp1="DAV:" xmlns:lp2="http://apache.org/dav/props/">
<D:href>/dav/c/a%20b%c3%a9%3f%25_1</D:href>
<D:propstat>
<D:prop>
<lp1:getcontentlength>6</lp1:getcontentlength>
<lp1:resourcetype/>
</D:prop>
<D:status>HTTP/1.1 200 OK</D:status>
</D:propstat>
</D:response>
</D:multistatus>
"""
NGINX = (
    b'<?xml version="1.0" encoding="utf-8" ?>\n<D:multistatus xmlns:D="DAV:"><D:response>'
    b"<D:href>/dav/c/</D:href><D:propstat><D:prop><D:resourcetype><D:collection/>"
    b"</D:resourcetype></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
    b"<D:response><D:href>/dav/c/a%20b%C3%A9%3F%25_1</D:href><D:propstat><D:prop>"
    b"<D:getcontentlength>6</D:getcontentlength><D:resourcetype></D:resourcetype></D:prop>"
    b"<D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>"
)
WSGIDAV = b"""<?xml version='1.0' encoding='UTF-8'?>
<D:multistatus xmlns:D="DAV:"><D:response><D:href>http://h:1/dav/c/empty</D:href>
<D:propstat><D:prop><NS1:post xmlns:NS1="urn:ssbench"/></D:prop>
<D:status>HTTP/1.1 403 Forbidden</D:status></D:propstat></D:response></D:multistatus>"""
RESPONSES = [APACHE, NGINX, WSGIDAV]


def parse(data: bytes, step: int = 1 << 20) -> list[tuple[str, int, bool, tuple[int, ...]]]:
    members: list[tuple[str, int, bool, tuple[int, ...]]] = []
    parser = Multistatus(lambda *member: members.append(member))
    for start in range(0, len(data), step):
        parser.feed(memoryview(data)[start : start + step])
    parser.finish(TIMING)
    return members


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_listings_of_servers(step: int) -> None:
    name = "/dav/c/a bé?%_1"
    collection, found = parse(APACHE, step)
    assert collection == ("/dav/c/", 0, True, (200, 404))
    assert found == (name, 6, False, (200,))
    assert parse(NGINX, step) == [("/dav/c/", 0, True, (200,)), (name, 6, False, (200,))]
    assert parse(WSGIDAV, step) == [("/dav/c/empty", 0, False, (403,))]


def multistatus(text: str) -> bytes:
    return f'<m:multistatus xmlns:m="DAV:">{text}</m:multistatus>'.encode()


BOMB = b"""<?xml version="1.0"?><!DOCTYPE m [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>
<D:multistatus xmlns:D="DAV:"><D:response><D:href>/&b;</D:href></D:response></D:multistatus>"""
OUTSIDE = b"""<!DOCTYPE m SYSTEM "file:///etc/passwd"><multistatus xmlns="DAV:"/>"""
REFUSED = [
    b"",
    b"<html><body>no</body></html>",
    b'<multistatus xmlns="DAV:">',
    b"<multistatus/>",
    APACHE[:-20],
    APACHE + b"more",
    BOMB,
    OUTSIDE,
    multistatus("&undefined;"),
    multistatus("<a>" * 40 + "</a>" * 40),
    multistatus(f"<a x='{'x' * 3_000_000}'/>"),
    # expat keeps each name for as long as it lives.
    multistatus("".join(f"<a{number}/>" for number in range(1001))),
    multistatus("".join(f"<a b{number}=''/>" for number in range(1001))),
    multistatus("".join(f"<a{number}:b xmlns:a{number}='u'/>" for number in range(1001))),
    multistatus("".join(f"<a xmlns='{number}'/>" for number in range(1001))),
    multistatus("".join(f"<{letter * 500_000}/>" for letter in "abc")),
    multistatus("<m:response></m:response>"),
    multistatus(f"<m:response><m:href>/{'x' * 20_000}</m:href></m:response>"),
    multistatus("<m:response><m:href>/x</m:href><m:status>fine</m:status></m:response>"),
    multistatus(
        f"<m:response><m:href>/x</m:href>{'<m:status>HTTP/1.1 200 OK</m:status>' * 101}"
        "</m:response>"
    ),
    multistatus(
        "<m:response><m:href>/x</m:href><m:getcontentlength>-1</m:getcontentlength></m:response>"
    ),
]


@pytest.mark.parametrize("data", REFUSED)
def test_what_is_no_multistatus_is_refused(data: bytes) -> None:
    with pytest.raises(StorageError) as caught:
        parse(data)
    assert (caught.value.kind, caught.value.timing) == (ErrorKind.PROTOCOL, TIMING)
