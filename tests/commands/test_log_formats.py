"""Lines of access logs, as the documents of their servers have them."""

from __future__ import annotations

import pytest

from ssbench.commands.replay.formats import (
    UNKNOWN,
    UNKNOWN_LAYOUT,
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
DATE = "10/Oct/2000:13:55:36 -0700"
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


def test_a_line_of_swift_s_proxy_with_and_without_syslog() -> None:
    line = swift("GET", "/v1/AUTH_a/photos/2026/%2520x.jpg%3Fformat%3Djson", sent=1024)
    expected = LoggedRequest(
        "GET OBJECT", b"photos", b"2026/ x.jpg", 1795359032_250000000, 1024, 1024, 12_300_000,
        "/v1/ACCOUNT/CONTAINER/OBJECT (Swift)",
    )  # fmt: skip
    assert request(line) == expected
    assert request(f"{SYSLOG}{line}") == expected
    assert request(f"<158>proxy-server: {line} AUTH_user") == expected, "with access_user_id"


def told(line: str) -> str:
    """Request, object, and the bytes that were moved of those that it has; or why it is none."""
    found = parsed(line)
    if not isinstance(found, LoggedRequest):
        return f"left out: {found.reason}" if found else "not understood"
    moved, size = ("?" if each == UNKNOWN else each for each in (found.moved, found.size))
    return f"{found.request}: {found.container.decode()}/{found.name.decode()}, {moved} of {size}"


#: Why -> lines that are left out.
LEFT_OUT = {
    "failed with status 404": [swift("GET", "/v1/a/c/o", 404), combined("GET", "/x", 404),
                               versitygw("GetObject", "k", "404 NoSuchKey")],
    "failed with status 304": [swift("GET", "/v1/a/c/o", 304)],
    "failed with status 403": [s3("REST.GET.OBJECT", "k", 403)],
    "failed with status -1": [haproxy("GET", "/x", -1)],
    "accounts and containers": [
        swift("GET", "/v1/a"), swift("HEAD", "/v1/a/c", 204), swift("PUT", "/v1/a/c", 201),
        s3("REST.HEAD.BUCKET"), versitygw("ListAllMyBuckets"), combined("GET", "/swift/v1"),
        beast("GET", "/"), beast("PUT", "/b"),
    ],
    "logins and service pages": [
        swift("GET", "/auth/v1.0"), swift("GET", "/info"), swift("POST", "/v3/auth/tokens", 201),
        combined("GET", "/swift/info"), beast("GET", "/admin/usage?uid=x"),
    ],
    "manifests of large objects": [
        swift("PUT", "/v1/a/c/o%3Fmultipart-manifest%3Dput", 201),
        swift("GET", "/v1/a/c/o%3Fmultipart-manifest%3Dget"),
    ],
    "parts of multipart uploads": [
        swift("PUT", "/b/k%3FuploadId%3DX%26partNumber%3D1"), s3("REST.PUT.PART", "k"),
        s3("REST.POST.UPLOADS", "k"), versitygw("UploadPart", "k"),
    ],
    "destinations of copies": [s3("REST.COPY.OBJECT", "k"), versitygw("CopyObject", "k")],
    "objects of bulk deletes": [s3("BATCH.DELETE.OBJECT", "k", 204)],
    "requests that the store made itself": [
        swift("GET", "/v1/a/c/o", source="SLO"), s3("S3.EXPIRE.OBJECT", "k", 204),
    ],
    "other requests": [
        swift("GET", "/b/k%3Facl"), swift("OPTIONS", "/v1/a/c/o"), s3("REST.GET.VERSIONING"),
        s3("REST.GET.OBJECT_TAGGING", "k"), versitygw("GetObjectTagging", "k"),
        combined("MKCOL", "/dav/c/", 201),
    ],
}  # fmt: skip


def test_requests_that_are_left_out_have_a_reason() -> None:
    found = {why: [told(line) for line in lines] for why, lines in LEFT_OUT.items()}
    assert found == {why: [f"left out: {why}"] * len(lines) for why, lines in LEFT_OUT.items()}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (swift("PUT", "/v1/a/c/o", 201, received=500, sent=3), "PUT OBJECT: c/o, 500 of 500"),
        (swift("PUT", "/v1/a/c/o", 201), "PUT OBJECT: c/o, 0 of 0"),
        (swift("GET", "/v1/a/c/o", 206, sent=100), "GET OBJECT 206: c/o, 100 of ?"),
        (swift("HEAD", "/v1/a/c/o"), "HEAD OBJECT: c/o, ? of ?"),
        (OLD_SWIFT, "GET OBJECT: c/o p, 70 of 70"),
        (swift("DELETE", "/v1/a/c/o", 204), "DELETE OBJECT: c/o, ? of ?"),
        (swift("POST", "/v1/a/c/o", 202), "POST OBJECT: c/o, ? of ?"),
        (swift("COPY", "/v1/a/c/o", 201), "COPY OBJECT: c/o, ? of ?"),
        (swift("GET", "/v1/a/c/"), "GET BUCKET: c/, ? of ?"),
        (swift("GET", "/v1.0/a/c%3Fprefix%3Dp", 204), "GET BUCKET: c/, ? of ?"),
        (swift("POST", "/v1/a%3Fbulk-delete"), "POST MULTI_OBJECT_DELETE: /, ? of ?"),
        (swift("POST", "/v1/a?bulk-delete&x=1"), "POST MULTI_OBJECT_DELETE: /, ? of ?"),
        (swift("GET", "/bucket/key"), "GET OBJECT: bucket/key, 0 of 0"),
        (swift("GET", "/bucket%3Flist-type%3D2"), "GET BUCKET: bucket/, ? of ?"),
        (swift("POST", "/bucket%3Fdelete"), "POST MULTI_OBJECT_DELETE: bucket/, ? of ?"),
        (s3("REST.GET.OBJECT", "a%2520b/c", sent=100, size=100),
         "GET OBJECT: amzn-s3-demo-bucket1/a%20b/c, 100 of 100"),
        (s3("REST.GET.OBJECT", "k", 206, sent=10, size=100),
         "GET OBJECT 206: amzn-s3-demo-bucket1/k, 10 of 100"),
        (s3("REST.GET.OBJECT", "k", 206, sent=10),
         "GET OBJECT 206: amzn-s3-demo-bucket1/k, 10 of ?"),
        (s3("REST.GET.OBJECT", "k", sent=10), "GET OBJECT: amzn-s3-demo-bucket1/k, 10 of 10"),
        (s3("WEBSITE.GET.OBJECT", "k", sent=10, size=10),
         "GET OBJECT: amzn-s3-demo-bucket1/k, 10 of 10"),
        (s3("REST.PUT.OBJECT", "k", size=4406583),
         "PUT OBJECT: amzn-s3-demo-bucket1/k, 4406583 of 4406583"),
        (s3("REST.POST.UPLOAD", "k", sent=354, size=9),
         "POST UPLOAD: amzn-s3-demo-bucket1/k, 9 of 9"),
        (s3("REST.HEAD.OBJECT", "k", size=7), "HEAD OBJECT: amzn-s3-demo-bucket1/k, ? of 7"),
        (s3("REST.DELETE.OBJECT", "k", 204), "DELETE OBJECT: amzn-s3-demo-bucket1/k, ? of ?"),
        (s3("REST.COPY.OBJECT_GET", "k", size=7),
         "COPY OBJECT_GET: amzn-s3-demo-bucket1/k, ? of 7"),
        (s3("REST.GET.BUCKET", sent=300), "GET BUCKET: amzn-s3-demo-bucket1/, ? of ?"),
        (s3("REST.POST.MULTI_OBJECT_DELETE"),
         "POST MULTI_OBJECT_DELETE: amzn-s3-demo-bucket1/, ? of ?"),
        (versitygw("PutObject", "a b/200 c", size=1000),
         "PUT OBJECT: bench/a b/200 c, 1000 of 1000"),
        (versitygw("PutObject", "k"), "PUT OBJECT: bench/k, 0 of 0"),
        (versitygw("GetObject", "k"), "GET OBJECT: bench/k, ? of ?"),
        (versitygw("ListObjectsV2"), "GET BUCKET: bench/, ? of ?"),
        (versitygw("DeleteObjects"), "POST MULTI_OBJECT_DELETE: bench/, ? of ?"),
        (beast("PUT", "/b/a%20b"), "PUT OBJECT: b/a b, 4096 of 4096"),
        (beast("GET", "/b/o", 206), "GET OBJECT 206: b/o, 4096 of ?"),
        (beast("GET", "/b?max-keys=2"), "GET BUCKET: b/, ? of ?"),
        (beast("GET", "/b/"), "GET BUCKET: b/, ? of ?"),
        (beast("HEAD", "/swift/v1/c/o"), "HEAD OBJECT: c/o, ? of ?"),
        (haproxy("GET", "/c/o%20p"), "GET OBJECT: c/o p, 2750 of 2750"),
        (haproxy("PUT", "/v1/AUTH_a/c/o", 201), "PUT OBJECT: c/o, ? of ?"),
        (haproxy("GET", "https://h/v1/AUTH_a/c?x=1"), "GET BUCKET: c/, ? of ?"),
        (haproxy("GET", "/c/o").replace(" {1wt.eu|a b} {}", ""), "GET OBJECT: c/o, 2750 of 2750"),
        (f'{haproxy("GET", "/c/o")} "h" 0/0/0/0/0 -/TLSv1.3/-', "GET OBJECT: c/o, 2750 of 2750"),
        (combined("PROPFIND", "/dav/folder/", 207, 10), "PROPFIND BUCKET: dav/, ? of ?"),
        (combined("PROPFIND", "/dav/file", 207, 10), "PROPFIND OBJECT: dav/file, ? of ?"),
        (combined("PROPPATCH", "/dav/file", 207, 10), "PROPPATCH OBJECT: dav/file, ? of ?"),
        (combined("COPY", "/dav/file", 201, 10), "COPY OBJECT: dav/file, ? of ?"),
        (combined("GET", "/", 200, 10), "GET OBJECT: //, 10 of 10"),
        (combined("GET", "/blog/", 200, 10), "GET OBJECT: /blog, 10 of 10"),
        (combined("GET", "/bucket?list-type=2&prefix=a", 200, 10), "GET BUCKET: /, ? of ?"),
        (combined("GET", "/v1/AUTH_a/c/o?x=1", 200, 10), "GET OBJECT: c/o, 10 of 10"),
        (combined("GET", "http://h/v1/AUTH_a/c/o", 200, 10), "GET OBJECT: c/o, 10 of 10"),
        ("", "not understood"),
        ('{"time": 1}', "not understood"),
        (COMMON.replace("Oct", "Okt"), "not understood"),
        (COMMON.replace("13:55", "33:55"), "not understood"),
        (COMMON.replace("10/", "32/"), "not understood"),
        (COMMON.replace(DATE, "2000-13-10T13:55:36Z"), "not understood"),
        (COMMON.replace("200 2326", "200"), "not understood"),
        (swift("get", "/v1/a/c/o"), "not understood"),
        (swift("GET", "/v1/a/c/o").replace("Nov", "XXX"), "not understood"),
        ("\0" * 100, "not understood"),
    ],
)  # fmt: skip
def test_a_request_has_its_object_and_its_bytes(line: str, expected: str) -> None:
    assert told(line) == expected


@pytest.mark.parametrize(
    ("line", "at_ns", "duration_ns"),
    [
        (OLD_SWIFT, (1795359032 - 2) * SECOND, 2 * SECOND),  # it ends with the duration
        (s3("REST.GET.OBJECT", "k"), 1549411238 * SECOND, 7_000_000),
        # It logs the end.
        (versitygw("GetObject", "k"), 1795384733 * SECOND - 6_000_000, 6_000_000),
        (beast("GET", "/b/o"), 1675608240_045000000, 36_000_937),
        # Of older releases.
        (beast("GET", "/b/o").partition(" latency=")[0], 1675608240_045000000, UNKNOWN),
        (haproxy("GET", "/c/o"), 1233922454_655000000, 109_000_000),
        (COMMON.replace(DATE, "01/Jan/1970:00:00:00 +0000"), 0, UNKNOWN),
        (COMMON.replace(DATE, "01/Jan/2000:23:59:60 +0530"), 946751400 * SECOND, UNKNOWN),
        (COMMON.replace(DATE, "31/Dec/2100:00:00:00 -0330"), 4133907000 * SECOND, UNKNOWN),
        (COMMON.replace(DATE, "01/Jan/1970:00:00:01.5 +0000"), 1_500_000_000, UNKNOWN),
        (COMMON.replace(DATE, "1970-01-01T00:00:00Z"), 0, UNKNOWN),
        (COMMON.replace(DATE, "2000-01-01T23:59:60+05:30"), 946751400 * SECOND, UNKNOWN),
        (COMMON.replace(DATE, "2100-12-31T00:00:00-0330"), 4133907000 * SECOND, UNKNOWN),
        (COMMON.replace(DATE, "1970-01-01T01:00:01.25+01:00"), 1_250_000_000, UNKNOWN),
    ],
)
def test_a_request_has_its_begin_in_its_zone_and_its_duration(
    line: str, at_ns: int, duration_ns: int
) -> None:
    found = request(line)
    assert (found.at_ns, found.duration_ns) == (at_ns, duration_ns)


def test_a_query_is_compared_by_whole_parameters() -> None:
    line = swift("GET", "/v1/a/c/o%3Fx-acl%3D1%26undelete%26deleted%26temp_url_sig%3Dabc", sent=1)
    assert request(line).request == "GET OBJECT"
    for query in ("location=berlin", "select=name", "delete=1", "prefix=a&x"):
        found = request(combined("GET", f"/app/page?{query}", sent=1))
        assert found[:3] == ("GET OBJECT", b"app", b"page"), "of another application"


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
        COMMON.replace(DATE, "2000-10-10T13:55:36.5Z"),
    )
]  # fmt: skip


def test_a_masked_line_shows_its_form_only() -> None:
    assert masked(b"10.1.2.3 - Frank [10/Oct]\n") == "99.9.9.9 - Aaaaa [99/Aaa]"
    assert masked("pässwörd\x1b[2J".encode()) == "a??aaa??aa?[9A"
    assert masked(b"x" * 200) == "a" * 70 + "..."
