"""Lines of access logs, as the documents of their servers have them."""

from __future__ import annotations

import pytest

from ssbench.commands.replay.formats import (
    UNKNOWN,
    UNKNOWN_LAYOUT,
    LeftOut,
    LineParser,
    LoggedRequest,
    Parsed,
    masked,
)

SECOND = 10**9
#: Swift's default log_msg_template; what syslog puts before it; and releases before the template.
SWIFT = (
    "192.0.2.7 192.0.2.8 22/Nov/2026/14/50/32 {method} {path} HTTP/1.0 {status} - "
    "python-swiftclient-4.6.0 AUTH_tk0123456789abcdef... {received} {sent} - "
    "tx0123456789abcdef01234-006b030676 - 0.0123 {source} - 1795359032.250000000 "
    "1795359032.262300000 0"
)
SYSLOG = "Nov 22 14:50:32 proxy1 proxy-server: "
OLD_SWIFT = (
    "192.0.2.7 192.0.2.8 22/Nov/2026/14/50/32 GET /v1/AUTH_a/c/o%20p HTTP/1.0 200 - - "
    "AUTH_tk0123 - 70 - tx0123 - 2.0000"
)
#: "Amazon S3 server access log format", shortened ids.
S3 = (
    "79a59df900b949e5 amzn-s3-demo-bucket1 [06/Feb/2019:00:00:38 +0000] 192.0.2.3 "
    "79a59df900b949e5 3E57427F3EXAMPLE {operation} {key} "
    '"{uri}" {status} - {sent} {size} 7 - "-" "S3Console/0.4" - '
    "s9lzHYrFp76ZVxRcpX9+5cjAnEH2ROuNkd2BHfIa6UkFVdtjf5mKR3= SigV4 ECDHE-RSA-AES128-GCM-SHA256 "
    "AuthHeader amzn-s3-demo-bucket1.s3.us-west-1.amazonaws.com TLSV1.2 "
    "arn:aws:s3:us-west-1:123456789012:accesspoint/example-AP Yes"
)
#: Of Apache's mod_log_config; common, combined, combinedio.
COMMON = '127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326'
COMBINED = f'{COMMON} "http://www.example.com/start.html" "Mozilla/4.08 [en] (Win98; I ;Nav)"'
COMBINEDIO = (
    'dav.example.com:443 192.0.2.7 - Jo Doe [10/Oct/2000:13:55:36 +0000] "PUT /dav/a%20b HTTP/1.1" '
    '201 0 "-" "cadaver/0.23 \\"x\\"" 2600 190'
)

#: rgw_asio_frontend.cc of Ceph; HAProxy's manual, "HTTP log format".
BEAST = (
    "2023-02-05T16:44:00.081+0200 7fb3e5aa8700  1 beast: 0x7fb3e5aa0740: 192.0.2.7 - bench "
    '[05/Feb/2023:16:44:00.045 +0200] "{method} {path} HTTP/1.1" {status} {count} - '
    '"client/1.25 (linux; amd64)" - latency=0.036000937s'
)
HAPROXY = (
    "Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in~ "
    "static/srv1 10/0/30/69/109 {status} 2750 - - ---- 1/1/1/1/0 0/0 {{1wt.eu|a b}} {{}} "
    '"{method} {path} HTTP/1.1"'
)


def swift(method: str, path: str, status: int = 200, **more: object) -> str:
    values = {"received": "-", "sent": "-", "source": "-", **more}
    return SWIFT.format(method=method, path=path, status=status, **values)


def s3(operation: str, key: str = "-", status: int = 200, **more: object) -> str:
    values = {"sent": "-", "size": "-", "uri": "GET /x HTTP/1.1", **more}
    return S3.format(operation=operation, key=key, status=status, **values)


def versitygw(operation: str, key: str = "-", status: str = "200 -", size: int = 0) -> str:
    return (
        f"user bench [22/November/2026:21:58:53 +0000] 127.0.0.1 user DXWF08ZX s3_{operation} {key}"
        f" /bench/{key.replace(' ', '%20')}?x-id=x {status} 0 {size} 6 5 - ssbench 1 - uouN/Q1p="
        " SigV4 - AuthHeader s3.us-east-1.amazonaws.com - arn:aws:s3:::/bench/k Yes"
    )


def beast(method: str, path: str, status: int = 200, count: int = 4096) -> str:
    return BEAST.format(method=method, path=path, status=status, count=count)


def haproxy(method: str, path: str, status: int = 200) -> str:
    return HAPROXY.format(method=method, path=path, status=status)


def combined(method: str, path: str, status: int = 200, sent: int = 0) -> str:
    return f'h - - [10/Oct/2000:13:55:36 +0000] "{method} {path} HTTP/1.1" {status} {sent} "-" "-"'


def parsed(line: str) -> Parsed | None:
    found = LineParser().parse(f"{line}\n".encode("latin-1"))
    assert found == LineParser().parse(line.encode("latin-1")), "also without a newline"
    return found


def request(line: str) -> LoggedRequest:
    found = parsed(line)
    assert isinstance(found, LoggedRequest), found
    return found


def reason(line: str) -> str:
    found = parsed(line)
    assert isinstance(found, LeftOut), found
    return found.reason


def test_a_line_of_swift_s_proxy_with_and_without_syslog() -> None:
    line = swift("GET", "/v1/AUTH_a/photos/2026/%2520x.jpg%3Fformat%3Djson", sent=1024)
    expected = LoggedRequest(
        "GET OBJECT", b"photos", b"2026/ x.jpg", 1795359032_250000000, 1024, 1024, 12_300_000,
        "/v1/ACCOUNT/CONTAINER/OBJECT (Swift)",
    )  # fmt: skip
    assert request(line) == expected
    assert request(f"{SYSLOG}{line}") == expected
    assert request(f"<158>proxy-server: {line} AUTH_user") == expected, "with access_user_id"


def test_a_line_of_older_swift_ends_with_the_duration() -> None:
    found = request(OLD_SWIFT)
    assert found[:3] == ("GET OBJECT", b"c", b"o p")
    assert found.at_ns == (1795359032 - 2) * SECOND
    assert found.size == 70


def test_sizes_of_swift_are_those_of_bodies() -> None:
    put = request(swift("PUT", "/v1/a/c/o", 201, received=500, sent=3))
    assert (put.request, put.size, put.moved) == ("PUT OBJECT", 500, 500)
    empty = request(swift("PUT", "/v1/a/c/o", 201))
    assert (empty.size, empty.moved) == (0, 0)
    part = request(swift("GET", "/v1/a/c/o", 206, sent=100))
    assert (part.request, part.size, part.moved) == ("GET OBJECT 206", UNKNOWN, 100)
    head = request(swift("HEAD", "/v1/a/c/o"))
    assert (head.request, head.size, head.moved) == ("HEAD OBJECT", UNKNOWN, UNKNOWN)


@pytest.mark.parametrize(
    ("method", "path", "status", "expected"),
    [
        ("DELETE", "/v1/a/c/o", 204, "DELETE OBJECT"),
        ("POST", "/v1/a/c/o", 202, "POST OBJECT"),
        ("COPY", "/v1/a/c/o", 201, "COPY OBJECT"),
        ("GET", "/v1/a/c", 200, "GET BUCKET"),
        ("GET", "/v1/a/c/", 200, "GET BUCKET"),
        ("GET", "/v1.0/a/c%3Fprefix%3Dp", 204, "GET BUCKET"),
        ("POST", "/v1/a%3Fbulk-delete", 200, "POST MULTI_OBJECT_DELETE"),
        ("POST", "/v1/a?bulk-delete&x=1", 200, "POST MULTI_OBJECT_DELETE"),
        ("GET", "/bucket/key", 200, "GET OBJECT"),
        ("GET", "/bucket%3Flist-type%3D2", 200, "GET BUCKET"),
        ("POST", "/bucket%3Fdelete", 200, "POST MULTI_OBJECT_DELETE"),
    ],
)
def test_requests_of_swift_that_are_operations(
    method: str, path: str, status: int, expected: str
) -> None:
    assert request(swift(method, path, status)).request == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (swift("GET", "/v1/a/c/o", 404), "failed with status 404"),
        (swift("GET", "/v1/a/c/o", 499), "failed with status 499"),
        (swift("GET", "/v1/a/c/o", 304), "failed with status 304"),
        (swift("GET", "/v1/a"), "accounts and containers"),
        (swift("HEAD", "/v1/a/c", 204), "accounts and containers"),
        (swift("PUT", "/v1/a/c", 201), "accounts and containers"),
        (swift("GET", "/auth/v1.0"), "logins and service pages"),
        (swift("GET", "/info"), "logins and service pages"),
        (swift("POST", "/v3/auth/tokens", 201), "logins and service pages"),
        (swift("PUT", "/v1/a/c/o%3Fmultipart-manifest%3Dput", 201), "manifests of large objects"),
        (swift("GET", "/v1/a/c/o%3Fmultipart-manifest%3Dget"), "manifests of large objects"),
        (swift("PUT", "/b/k%3FuploadId%3DX%26partNumber%3D1"), "parts of multipart uploads"),
        (swift("GET", "/b/k%3Facl"), "other requests"),
        (swift("OPTIONS", "/v1/a/c/o"), "other requests"),
        (swift("GET", "/v1/a/c/o", source="SLO"), "requests that the store made itself"),
        (s3("REST.GET.VERSIONING"), "other requests"),
        (s3("REST.GET.OBJECT_TAGGING", "k"), "other requests"),
        (s3("REST.PUT.PART", "k"), "parts of multipart uploads"),
        (s3("REST.POST.UPLOADS", "k"), "parts of multipart uploads"),
        (s3("REST.COPY.OBJECT", "k"), "destinations of copies"),
        (s3("REST.HEAD.BUCKET"), "accounts and containers"),
        (s3("REST.GET.OBJECT", "k", 403), "failed with status 403"),
        (s3("S3.EXPIRE.OBJECT", "k", 204), "requests that the store made itself"),
        (s3("BATCH.DELETE.OBJECT", "k", 204), "objects of bulk deletes"),
        (versitygw("CopyObject", "k"), "destinations of copies"),
        (versitygw("UploadPart", "k"), "parts of multipart uploads"),
        (versitygw("ListAllMyBuckets"), "accounts and containers"),
        (versitygw("GetObjectTagging", "k"), "other requests"),
        (versitygw("GetObject", "k", "404 NoSuchKey"), "failed with status 404"),
        (combined("MKCOL", "/dav/c/", 201), "other requests"),
        (combined("GET", "/x", 404), "failed with status 404"),
        (combined("GET", "/swift/v1"), "accounts and containers"),
        (combined("GET", "/swift/info"), "logins and service pages"),
        (beast("GET", "/"), "accounts and containers"),
        (beast("PUT", "/b"), "accounts and containers"),
        (beast("GET", "/admin/usage?uid=x"), "logins and service pages"),
        (haproxy("GET", "/x", -1), "failed with status -1"),
    ],
)
def test_requests_that_are_left_out_have_a_reason(line: str, expected: str) -> None:
    assert reason(line) == expected


def test_a_query_is_compared_by_whole_parameters() -> None:
    line = swift("GET", "/v1/a/c/o%3Fx-acl%3D1%26undelete%26deleted%26temp_url_sig%3Dabc", sent=1)
    assert request(line).request == "GET OBJECT"
    for query in ("location=berlin", "select=name", "delete=1", "prefix=a&x"):
        found = request(combined("GET", f"/app/page?{query}", sent=1))
        assert found[:3] == ("GET OBJECT", b"app", b"page"), "of another application"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            s3("REST.GET.OBJECT", "a%2520b/c", sent=100, size=100),
            ("GET OBJECT", b"a%20b/c", 100, 100),
        ),
        (s3("REST.GET.OBJECT", "k", 206, sent=10, size=100), ("GET OBJECT 206", b"k", 100, 10)),
        (s3("REST.GET.OBJECT", "k", 206, sent=10), ("GET OBJECT 206", b"k", UNKNOWN, 10)),
        (s3("REST.GET.OBJECT", "k", sent=10), ("GET OBJECT", b"k", 10, 10)),
        (s3("WEBSITE.GET.OBJECT", "k", sent=10, size=10), ("GET OBJECT", b"k", 10, 10)),
        (s3("REST.PUT.OBJECT", "k", size=4406583), ("PUT OBJECT", b"k", 4406583, 4406583)),
        (s3("REST.POST.UPLOAD", "k", sent=354, size=9), ("POST UPLOAD", b"k", 9, 9)),
        (s3("REST.HEAD.OBJECT", "k", size=7), ("HEAD OBJECT", b"k", 7, UNKNOWN)),
        (
            s3("REST.DELETE.OBJECT", "k", 204),
            ("DELETE OBJECT", b"k", UNKNOWN, UNKNOWN),
        ),
        (s3("REST.COPY.OBJECT_GET", "k", size=7), ("COPY OBJECT_GET", b"k", 7, UNKNOWN)),
        (s3("REST.GET.BUCKET", sent=300), ("GET BUCKET", b"", UNKNOWN, UNKNOWN)),
        (
            s3("REST.POST.MULTI_OBJECT_DELETE"),
            ("POST MULTI_OBJECT_DELETE", b"", UNKNOWN, UNKNOWN),
        ),
    ],
)
def test_lines_of_s3(line: str, expected: tuple[str, bytes, int, int]) -> None:
    found = request(line)
    assert (found.request, found.name, found.size, found.moved) == expected
    assert found.container == b"amzn-s3-demo-bucket1"
    assert found.at_ns == 1549411238 * SECOND
    assert found.duration_ns == 7_000_000


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (versitygw("PutObject", "a b/200 c", size=1000), ("PUT OBJECT", b"a b/200 c", 1000, 1000)),
        (versitygw("PutObject", "k"), ("PUT OBJECT", b"k", 0, 0)),
        (versitygw("GetObject", "k"), ("GET OBJECT", b"k", UNKNOWN, UNKNOWN)),
        (versitygw("ListObjectsV2"), ("GET BUCKET", b"", UNKNOWN, UNKNOWN)),
        (
            versitygw("DeleteObjects"),
            ("POST MULTI_OBJECT_DELETE", b"", UNKNOWN, UNKNOWN),
        ),
    ],
)
def test_lines_of_versitygw(line: str, expected: tuple[str, bytes, int, int]) -> None:
    found = request(line)
    assert (found.request, found.name, found.size, found.moved) == expected
    assert found.container == b"bench"
    assert found.duration_ns == 6_000_000
    assert found.at_ns + found.duration_ns == 1795384733 * SECOND, "it logs the end"


BEAST_BEGIN_NS = 1675608240_045000000
HAPROXY_BEGIN_NS = 1233922454_655000000


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (beast("PUT", "/b/a%20b", 200), ("PUT OBJECT", b"b", b"a b", 4096, 4096)),
        (beast("GET", "/b/o", 206), ("GET OBJECT 206", b"b", b"o", UNKNOWN, 4096)),
        (beast("GET", "/b?max-keys=2"), ("GET BUCKET", b"b", b"", UNKNOWN, UNKNOWN)),
        (beast("GET", "/b/"), ("GET BUCKET", b"b", b"", UNKNOWN, UNKNOWN)),
        (beast("GET", "/swift/v1/c"), ("GET BUCKET", b"c", b"", UNKNOWN, UNKNOWN)),
        (beast("HEAD", "/swift/v1/c/o"), ("HEAD OBJECT", b"c", b"o", UNKNOWN, UNKNOWN)),
    ],
)
def test_lines_of_rgw(line: str, expected: tuple[str, bytes, bytes, int, int]) -> None:
    found = request(line)
    assert (*found[:3], found.size, found.moved) == expected
    assert (found.at_ns, found.duration_ns) == (BEAST_BEGIN_NS, 36_000_937)
    assert request(line.partition(" latency=")[0]).duration_ns == UNKNOWN, "of older releases"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (haproxy("GET", "/c/o%20p"), ("GET OBJECT", b"c", b"o p", 2750)),
        (haproxy("PUT", "/v1/AUTH_a/c/o", 201), ("PUT OBJECT", b"c", b"o", UNKNOWN)),
        (haproxy("GET", "https://h/v1/AUTH_a/c?x=1"), ("GET BUCKET", b"c", b"", UNKNOWN)),
        (haproxy("GET", "/c/o").replace(" {1wt.eu|a b} {}", ""), ("GET OBJECT", b"c", b"o", 2750)),
        (f'{haproxy("GET", "/c/o")} "h" 0/0/0/0/0 -/TLSv1.3/-', ("GET OBJECT", b"c", b"o", 2750)),
    ],
)
def test_lines_of_haproxy(line: str, expected: tuple[str, bytes, bytes, int]) -> None:
    found = request(line)
    assert (*found[:3], found.size) == expected
    assert (found.at_ns, found.duration_ns) == (HAPROXY_BEGIN_NS, 109_000_000)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/AUTH_a/c/o", (b"c", b"o", "/v1/ACCOUNT/CONTAINER/OBJECT (Swift)")),
        ("/swift/v1/c/o/p", (b"c", b"o/p", "/swift/v1/CONTAINER/OBJECT (Swift API of RGW)")),
        ("/swift/v1/c", (b"c", b"", "/swift/v1/CONTAINER/OBJECT (Swift API of RGW)")),
        (
            "/swift/v1/AUTH_a/c/o",
            (b"c", b"o", "/PREFIX/v1/AUTH_ACCOUNT/CONTAINER/OBJECT (Swift)"),
        ),
        (
            "/object-store/v1/AUTH_a/c",
            (b"c", b"", "/PREFIX/v1/AUTH_ACCOUNT/CONTAINER/OBJECT (Swift)"),
        ),
        ("/store/v1/c/o", (b"store", b"v1/c/o", UNKNOWN_LAYOUT)),
        ("/dav/folder/o", (b"dav", b"folder/o", "/CONTAINER/OBJECT")),
        ("/o", (b"", b"o", "/OBJECT")),
    ],
)
def test_the_layout_of_a_path_is_known_or_said(
    path: str, expected: tuple[bytes, bytes, str]
) -> None:
    for line in (combined("GET", path), haproxy("GET", path)):
        found = request(line)
        assert (found.container, found.name, found.layout) == expected


@pytest.mark.parametrize(
    ("time", "unix_s"),
    [
        ("01/Jan/1970:00:00:00 +0000", 0),
        ("01/Jan/2000:23:59:60 +0530", 946771200 - 19800),
        ("31/Dec/2100:00:00:00 -0330", 4133894400 + 12600),
        ("01/Jan/1970:00:00:01.5 +0000", 1.5),
    ],
)
def test_times_are_those_of_their_zone(time: str, unix_s: float) -> None:
    assert request(COMMON.replace("10/Oct/2000:13:55:36 -0700", time)).at_ns == unix_s * SECOND


@pytest.mark.parametrize(
    ("method", "path", "status", "expected"),
    [
        ("PROPFIND", "/dav/folder/", 207, ("PROPFIND BUCKET", b"dav", b"")),
        ("PROPFIND", "/dav/file", 207, ("PROPFIND OBJECT", b"dav", b"file")),
        ("PROPPATCH", "/dav/file", 207, ("PROPPATCH OBJECT", b"dav", b"file")),
        ("COPY", "/dav/file", 201, ("COPY OBJECT", b"dav", b"file")),
        ("GET", "/", 200, ("GET OBJECT", b"", b"/")),
        ("GET", "/blog/", 200, ("GET OBJECT", b"", b"blog")),
        ("GET", "/bucket?list-type=2&prefix=a", 200, ("GET BUCKET", b"", b"")),
        ("GET", "/v1/AUTH_a/c/o?x=1", 200, ("GET OBJECT", b"c", b"o")),
        ("GET", "http://h/v1/AUTH_a/c/o", 200, ("GET OBJECT", b"c", b"o")),
    ],
)
def test_requests_of_web_servers(
    method: str, path: str, status: int, expected: tuple[str, bytes, bytes]
) -> None:
    assert request(combined(method, path, status, 10))[:3] == expected


@pytest.mark.parametrize(
    "line",
    [
        "", "hello", "{}", '{"time": 1}',
        COMMON.replace("Oct", "Okt"), COMMON.replace("13:55", "33:55"),
        COMMON.replace("10/", "32/"),
        COMMON.replace("200 2326", "200"), swift("get", "/v1/a/c/o"),
        swift("GET", "/v1/a/c/o").replace("Nov", "XXX"), "\0" * 100,
    ],
)  # fmt: skip
def test_other_lines_are_not_understood(line: str) -> None:
    assert parsed(line) is None


def test_the_format_may_be_forced_and_changes_within_a_log() -> None:
    lines = [
        each.encode()
        for each in (
            swift("GET", "/v1/a/c/o"),
            COMMON,
            s3("REST.GET.OBJECT", "k"),
            beast("GET", "/b/o"),
            haproxy("GET", "/c/o"),
        )
    ]
    any_format = LineParser()
    assert all(any_format.parse(line) for line in [*lines, *lines])
    for name, line in zip(("swift", "combined", "s3", "beast", "haproxy"), lines, strict=True):
        forced = LineParser(name)
        assert [bool(forced.parse(each)) for each in lines] == [each is line for each in lines]


SEEDS = [
    line.encode()
    for line in (
        swift("GET", "/v1/AUTH_a/c/o%3Fx%3D1", sent=10),
        f"{SYSLOG}{swift('PUT', '/v1/a/c/o', 201)}",
        OLD_SWIFT, s3("REST.GET.OBJECT", "k", sent=1, size=1), versitygw("GetObject", "k"),
        COMMON, COMBINED, COMBINEDIO, beast("GET", "/b/o?x=1"), haproxy("PUT", "/c/o"),
    )
]  # fmt: skip


def test_a_masked_line_shows_its_form_only() -> None:
    assert masked(b"10.1.2.3 - Frank [10/Oct]\n") == "99.9.9.9 - Aaaaa [99/Aaa]"
    assert masked("pässwörd\x1b[2J".encode()) == "a??aaa??aa?[9A"
    assert masked(b"x" * 200) == "a" * 70 + "..."
