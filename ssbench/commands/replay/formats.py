"""Lines of access logs: Swift's proxy log, S3's server access log, those of RGW, HAProxy and web
servers.

A line is a request, or one that is left out for a stated reason, or it is not understood. Nothing
but names of containers and objects leaves this module of what identifies users, and
``accesslog.requests`` keeps hashes of these.

Sources of the formats: the ``log_msg_template`` of Swift's proxy-logging middleware, whose fields
are quoted and "-" if empty; "Amazon S3 server access log format"; s3log of versitygw 1.8;
rgw_asio_frontend.cc of Ceph; "HTTP log format" of HAProxy's manual; Apache's mod_log_config and
mod_logio, and nginx's ngx_http_log_module.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from ssbench.core.model import SECOND_NS
from ssbench.core.operations import LOGGED

UNKNOWN = -1  #: bytes of an object, or nanoseconds, that a log does not say
MAX_LINE = 1 << 16  #: bytes; longer lines are not understood


class LoggedRequest(NamedTuple):
    """A request that is an operation."""

    request: str  #: a key of operations.LOGGED
    container: bytes
    name: bytes  #: of the object; b"" for an operation on a container
    at_ns: int  #: when it began; Unix time
    size: int  #: bytes of the whole object; UNKNOWN
    moved: int  #: bytes of content; UNKNOWN
    duration_ns: int  #: UNKNOWN
    layout: str = ""  #: how the path was read; "": the log names container and object


class LeftOut(NamedTuple):
    """A request that is none of our operations."""

    reason: str
    at_ns: int


Parsed = LoggedRequest | LeftOut

_CONTAINERS = "accounts and containers"
_PARTS = "parts of multipart uploads"
_MANIFESTS = "manifests of large objects"
_SERVICE = "logins and service pages"
_INTERNAL = "requests that the store made itself"
_OTHER = "other requests"

# What of a query changes a request. Parameters are compared as a whole; S3's have no value, unlike
# those of the same name that other applications have.
_QUERY = re.compile(
    rb"(?:^|&)(?:"
    rb"(?P<set>bulk-delete|delete(?==?(?:&|$)))|(?P<parts>uploads|uploadId|partNumber)"
    rb"|(?P<manifest>multipart-manifest=(?:put|get))"
    rb"|(?P<listing>list-type|prefix|delimiter|max-keys|marker|start-after)"
    rb"|(?P<other>(?:acl|tagging|policy|versioning|versions|lifecycle|cors|website|logging"
    rb"|notification|location|encryption|requestPayment|replication|torrent|restore|select"
    rb"|attributes|object-lock|retention|legal-hold|publicAccessBlock)(?==?(?:&|$))|extract-archive)"
    rb")(?=[=&]|$)"
)
#: Path and container and object in it, and how messages show the layout. An account behind a prefix
#: begins with Swift's and RGW's usual AUTH_; without it (RGW's default) no account is in the path.
_LAYOUTS = (
    (rb"/v1(?:\.0)?/[^/]+(?:/([^/]*)(?:/(.*))?)?", "/v1/ACCOUNT/CONTAINER/OBJECT (Swift)"),
    (
        rb"(?:/[^/]+){1,2}/v1(?:\.0)?/AUTH_[^/]*(?:/([^/]*)(?:/(.*))?)?",
        "/PREFIX/v1/AUTH_ACCOUNT/CONTAINER/OBJECT (Swift)",
    ),
    (rb"/swift/v1(?:\.0)?(?:/([^/]*)(?:/(.*))?)?", "/swift/v1/CONTAINER/OBJECT (Swift API of RGW)"),
)
_SWIFT_PATHS = [(re.compile(path, re.DOTALL), layout) for path, layout in _LAYOUTS]
_PLAIN, _BUCKET_ALONE, _OBJECT_ALONE = "/CONTAINER/OBJECT", "/CONTAINER", "/OBJECT"
UNKNOWN_LAYOUT = "unknown, with a version in it; the first segment was taken as the container"
_VERSIONED_PATH = re.compile(rb"(?:/[^/]+){1,3}/v\d(?:\.\d)?(?:/|$)")
_SERVICE_PATH = re.compile(
    rb"/(?:auth(?:/.*)?|(?:swift/)?(?:info|healthcheck|crossdomain\.xml)|endpoints(?:/.*)?"
    rb"|recon(?:/.*)?|v[23](?:\.\d)?(?:/.*)?)",
    re.DOTALL,
)
_FRACTION = re.compile(rb"\.(\d{1,9})")
_EPOCH = date(1970, 1, 1).toordinal()
_LAST_YEAR = 2100  #: later times do not fit into 64 bits
_MONTHS = {
    name: number
    for number, name in enumerate(
        b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), start=1
    )
}


def _reason_for_status(status: bytes) -> str:
    return f"failed with status {status.decode()}"


def _number(text: bytes | None) -> int:
    """Bytes; "-" stands for 0 in Swift's logs, and for unknown or 0 in others."""
    return int(text) if text and text.isdigit() and len(text) < 19 else 0


@lru_cache(maxsize=64)  # lines of the same second follow each other
def _second_ns(text: bytes) -> int | None:
    """Unix time of ``06/Feb/2019:00:00:38 +0100``, also with slashes, or of
    ``2019-02-06T00:00:38+01:00``; without a zone it is UTC. None if there is no such."""
    try:
        if text[4:5] == b"-":
            day = date(int(text[:4]), int(text[5:7]), int(text[8:10]))
            clock, zone = text[11:19], text[19:].strip(b"Z").replace(b":", b"")
        else:
            day = date(int(text[7:11]), _MONTHS[text[3:6]], int(text[:2]))
            clock, zone = text[12:20], text[21:26]
        hour, minute, second = int(clock[:2]), int(clock[3:5]), int(clock[6:8])
    except (ValueError, KeyError):
        return None
    if hour > 23 or minute > 59 or second > 60 or not 1970 <= day.year <= _LAST_YEAR:
        return None
    seconds = (day.toordinal() - _EPOCH) * 86400 + hour * 3600 + minute * 60 + second
    if zone:
        offset = int(zone[1:3]) * 3600 + int(zone[3:5]) * 60
        seconds -= -offset if zone[:1] == b"-" else offset
    return seconds * SECOND_NS


def _time_ns(text: bytes) -> int | None:
    """As ``_second_ns``, also with a fraction: ``06/Feb/2019:00:00:38.045 +0100``."""
    found = _FRACTION.search(text) if b"." in text else None
    if found is None:
        return _second_ns(text)
    whole_ns = _second_ns(text[: found.start()] + text[found.end() :])
    return None if whole_ns is None else whole_ns + int(found[1].ljust(9, b"0"))


@lru_cache(maxsize=1024)
def _known(method: bytes, resource: str) -> str:
    """The key of LOGGED for a request; "" if it is none of our operations."""
    request = f"{method.decode('latin-1')} {resource}"
    return request if request in LOGGED else ""


def _located(path: bytes, bucket_alone: bool) -> tuple[bytes, bytes, str]:
    """Container, object and layout of a path; see ``_http``."""
    if b"/v" in path:  # most have none, and patterns take longer
        for pattern, layout in _SWIFT_PATHS:
            found = pattern.fullmatch(path)
            if found:
                return found[1] or b"", found[2] or b"", layout
    container, _, name = path.lstrip(b"/").partition(b"/")
    if not name and bucket_alone:
        return container, b"", _BUCKET_ALONE
    if not name:
        return b"", container or b"/", _OBJECT_ALONE
    is_unknown = b"/v" in path and _VERSIONED_PATH.match(path)
    return container, name, UNKNOWN_LAYOUT if is_unknown else _PLAIN


def _http(
    method: bytes, path: bytes, query: bytes, status: bytes, at_ns: int,
    *, sent: int, received: int, duration_ns: int, bucket_alone: bool,
) -> Parsed:  # fmt: skip
    """A request by its method and path.

    :param path: without percent encoding.
    :param received: bytes of the request's body; UNKNOWN.
    :param bucket_alone: a path of one segment is a container.
    """
    if status[:1] != b"2":
        return LeftOut(_reason_for_status(status), at_ns)
    if _SERVICE_PATH.fullmatch(path):
        return LeftOut(_SERVICE, at_ns)
    container, name, layout = _located(path, bucket_alone)
    found = _QUERY.search(query) if query else None
    kind = found.lastgroup if found else None
    if kind == "set":
        resource = "MULTI_OBJECT_DELETE"
    elif kind == "parts":
        return LeftOut(_PARTS, at_ns)
    elif kind == "manifest":
        return LeftOut(_MANIFESTS, at_ns)
    elif kind == "other":
        return LeftOut(_OTHER, at_ns)
    elif not name or (kind == "listing" and b"/" not in path.strip(b"/")):
        if not container and not name:
            return LeftOut(_CONTAINERS, at_ns)
        resource, name = "BUCKET", b""
    elif name.endswith(b"/") and _known(method, "BUCKET") and not _known(method, "OBJECT 206"):
        resource, name = "BUCKET", b""  # PROPFIND of a folder
    else:
        resource = "OBJECT 206" if status == b"206" else "OBJECT"
    request = _known(method, resource)
    if not request:
        no_object = resource == "BUCKET" and _known(method, "OBJECT")
        return LeftOut(_CONTAINERS if no_object else _OTHER, at_ns)
    if request.startswith(_RECEIVES):
        size = moved = received
    elif request.startswith(_SENDS):
        size, moved = (UNKNOWN if status == b"206" else sent), sent
    else:
        size = moved = UNKNOWN
    return LoggedRequest(request, container, name, at_ns, size, moved, duration_ns, layout)


def _requests_with(body: str) -> tuple[str, ...]:
    return tuple(request for request, rows in LOGGED.items() if rows[0].body.value == body)


_RECEIVES, _SENDS = _requests_with("sent"), _requests_with("received")

_SWIFT = re.compile(
    rb"(?:^| )(\d\d/[A-Z][a-z]{2}/\d{4}/\d\d/\d\d/\d\d) ([A-Z]+) (\S+) HTTP/[\d.]+ (\d{3})"
    rb" \S+ \S+ \S+ (\d+|-) (\d+|-) \S+ \S+ \S+ (\d{1,9}(?:\.\d+)?|-)"
    rb"(?: (\S+)(?: \S+ ([0-3]?\d{1,9}\.\d{1,9}) \d+\.\d+)?)?(?:\s|$)"
)


def _swift(line: bytes) -> Parsed | None:
    """``log_msg_template`` as it is by default, also that of releases before there was one, which
    lacks the end; what is before the client's address, as by syslog, does not matter."""
    found = _SWIFT.search(line)
    if found is None:
        return None
    stamp, method, path, status, received, sent, seconds, source, start = found.groups()
    duration_ns = UNKNOWN if seconds == b"-" else int(float(seconds[:18]) * SECOND_NS)
    if start is not None:
        whole, _, fraction = start.partition(b".")
        at_ns = int(whole) * SECOND_NS + int(fraction.ljust(9, b"0"))
    else:
        end_ns = _second_ns(stamp)
        if end_ns is None:
            return None
        at_ns = end_ns - max(duration_ns, 0)
    if source not in (None, b"-"):
        return LeftOut(_INTERNAL, at_ns)
    # The whole field is quoted, and the path in it was quoted before.
    path, _, query = (path if b"?" in path else unquote_to_bytes(path)).partition(b"?")
    return _http(
        method, unquote_to_bytes(path) if b"%" in path else path, query, status, at_ns,
        sent=_number(sent), received=_number(received), duration_ns=duration_ns, bucket_alone=True,
    )  # fmt: skip


_LOCAL_TIME = rb"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d(?:\.\d{1,9})?"
_ISO_TIME = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)"
_TIME = rb"(" + _LOCAL_TIME + rb" [+-]\d{4}|" + _ISO_TIME + rb")"
_QUOTED = rb'"(?:[^"\\]|\\.)*"'
_S3 = re.compile(
    rb"(?:^| )(\S+) \[" + _TIME + rb"\] \S+ \S+ \S+ ([A-Z0-9]+)\.([A-Z0-9]+\.[A-Z0-9_]+) (\S+) "
    rb"(?:" + _QUOTED + rb"|-) (\d{3}|-) \S+ (\d+|-) (\d+|-) (\d+|-)(?: |$)"
)
#: Operations whose line names another object than ours, or that are other operations.
_S3_OTHER = {
    b"COPY.OBJECT": "destinations of copies",
    b"COPY.PART": _PARTS,
    b"COPY.PART_GET": _PARTS,
    b"PUT.PART": _PARTS,
    b"POST.UPLOADS": _PARTS,
    b"DELETE.UPLOAD": _PARTS,
    b"GET.UPLOAD": _PARTS,
    b"GET.UPLOADS": _PARTS,
    b"POST.OBJECT": _OTHER,
    b"HEAD.BUCKET": _CONTAINERS,
    b"PUT.BUCKET": _CONTAINERS,
    b"DELETE.BUCKET": _CONTAINERS,
}
BATCHED = "objects of bulk deletes"  #: each has a line, beside that of the request


#: versitygw's log: full names of months, names of the API, no quotes, bytes sent without bodies.
#: Keys are not quoted, so they may have spaces.
_VERSITYGW = re.compile(
    rb"\S+ (\S+) \[(\d\d/[A-Z][a-z]{2})[a-z]*(/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] \S+ \S+ \S+"
    rb" s3_(\w+) (.+?) /\S* (\d{3}) \S+ \d+ (\d+) (\d+) \d+ "
)
_VERSITYGW_OPERATIONS = {
    b"GetObject": b"GET.OBJECT",
    b"PutObject": b"PUT.OBJECT",
    b"HeadObject": b"HEAD.OBJECT",
    b"DeleteObject": b"DELETE.OBJECT",
    b"DeleteObjects": b"POST.MULTI_OBJECT_DELETE",
    b"CopyObject": b"COPY.OBJECT",
    b"ListObjects": b"GET.BUCKET",
    b"ListObjectsV2": b"GET.BUCKET",
    b"CompleteMultipartUpload": b"POST.UPLOAD",
    b"CreateMultipartUpload": b"POST.UPLOADS",
    b"AbortMultipartUpload": b"DELETE.UPLOAD",
    b"UploadPart": b"PUT.PART",
    b"UploadPartCopy": b"COPY.PART",
    b"ListParts": b"GET.UPLOAD",
    b"ListMultipartUploads": b"GET.UPLOADS",
    b"HeadBucket": b"HEAD.BUCKET",
    b"CreateBucket": b"PUT.BUCKET",
    b"DeleteBucket": b"DELETE.BUCKET",
    b"ListAllMyBuckets": b"HEAD.BUCKET",
}


def _s3(line: bytes) -> Parsed | None:
    found = _S3.search(line)
    if found is None:
        return _versitygw(line)
    bucket, stamp, source, operation, key, status, sent, size, milliseconds = found.groups()
    at_ns = _time_ns(stamp)
    if at_ns is None:
        return None
    duration_ns = _number(milliseconds) * 1_000_000 if milliseconds != b"-" else UNKNOWN
    if source not in (b"REST", b"WEBSITE"):
        return LeftOut(BATCHED if source == b"BATCH" else _INTERNAL, at_ns)
    return _s3_request(bucket, operation, key, status, at_ns, sent, size, duration_ns)


def _versitygw(line: bytes) -> Parsed | None:
    found = _VERSITYGW.match(line)
    if found is None:
        return None
    bucket, day, rest, name, key, status, size, milliseconds = found.groups()
    end_ns = _second_ns(day + rest)
    if end_ns is None:
        return None
    duration_ns = _number(milliseconds) * 1_000_000
    operation = _VERSITYGW_OPERATIONS.get(name, name)
    if operation != b"PUT.OBJECT" and size == b"0":
        size = b"-"  # it logs those of uploads only
    return _s3_request(
        bucket, operation, key, status, end_ns - duration_ns, None, size, duration_ns
    )


def _s3_request(
    bucket: bytes, operation: bytes, key: bytes, status: bytes, at_ns: int,
    sent: bytes | None, size: bytes, duration_ns: int,
) -> Parsed:  # fmt: skip
    """A request by the name of its operation, as ``GET.OBJECT``.

    :param sent: bytes of the response's body; None: unknown.
    """
    if operation in _S3_OTHER:
        return LeftOut(_S3_OTHER[operation], at_ns)
    if status[:1] != b"2":
        return LeftOut(_reason_for_status(status), at_ns)
    method, _, resource = operation.partition(b".")
    target = resource.decode()
    request = _known(method, f"{target} 206" if status == b"206" else target)
    has_key = key != b"-"
    if not request or (target.startswith("OBJECT") and not has_key):
        return LeftOut(_OTHER, at_ns)
    if target == "BUCKET" or target.startswith("MULTI"):
        key = b""
    size_known = size.isdigit()
    content = _number(size) if size_known else UNKNOWN
    if request.startswith(_SENDS):
        moved = UNKNOWN if sent is None else _number(sent)
        if content == UNKNOWN and status != b"206":
            content = moved
    elif request.startswith(_RECEIVES):
        content = max(content, 0)
        moved = content
    else:
        moved = UNKNOWN
    return LoggedRequest(request, bucket, unquote_to_bytes(key), at_ns, content, moved, duration_ns)


_COMBINED = re.compile(
    rb"(?:^| )\[" + _TIME + rb'\] "([A-Z]+) ((?:[^"\\ ]|\\.)+)(?: HTTP/[\d.]+)?" (\d{3}) (\d+|-)'
    rb"(?: " + _QUOTED + rb" " + _QUOTED + rb"(?: (\d+) (\d+)\s*$)?)?(?:\s|$)"
)


def _combined(line: bytes) -> Parsed | None:
    """The combined and the common log, also with nginx's ``$time_iso8601``; with mod_logio's bytes
    received and sent, uploads have a size, their headers included."""
    found = _COMBINED.search(line)
    if found is None or b" beast: 0x" in line:  # which begins alike
        return None
    stamp, method, path, status, sent, received, _sent = found.groups()
    at_ns = _time_ns(stamp)
    if at_ns is None:
        return None
    path, query = _split(path)
    return _http(
        method, path, query, status, at_ns,
        sent=_number(sent), received=UNKNOWN if received is None else _number(received),
        duration_ns=UNKNOWN, bucket_alone=False,
    )  # fmt: skip


def _split(target: bytes) -> tuple[bytes, bytes]:
    """Path, without percent encoding, and query of a request's target."""
    path, _, query = target.partition(b"?")
    if not path.startswith(b"/"):  # absolute, as sent to a proxy, and in HTTP/2
        path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
    return unquote_to_bytes(path) if b"%" in path else path, query


_BEAST = re.compile(
    rb"beast: 0x[0-9a-f]{1,16}: \S+ - [^\[]{1,256} \[" + _TIME + rb'\] "([A-Z]+) (\S+) HTTP/[\d.]+"'
    rb" (\d{3}) (\d+)(?: [^\n]{0,2000}? latency=(\d{1,9}(?:\.\d{1,9})?)s)?(?:\s|$)"
)
_ADMIN_PATH = re.compile(rb"/admin(?:/.*)?", re.DOTALL)  #: rgw_admin_entry


def _beast(line: bytes) -> Parsed | None:
    """The time is when the request began; its bytes are those sent and received together."""
    found = _BEAST.search(line)
    if found is None:
        return None
    stamp, method, target, status, count, seconds = found.groups()
    at_ns = _time_ns(stamp)
    if at_ns is None:
        return None
    path, query = _split(target)
    if _ADMIN_PATH.fullmatch(path):
        return LeftOut(_SERVICE, at_ns)
    moved = _number(count)
    return _http(
        method, path, query, status, at_ns, sent=moved, received=moved,
        duration_ns=UNKNOWN if seconds is None else int(float(seconds) * SECOND_NS),
        bucket_alone=True,
    )  # fmt: skip


_HAPROXY = re.compile(
    rb" \[(" + _LOCAL_TIME + rb")\] \S+ \S+ (?:-?\d+/){4}\+?(\d{1,12}) (\d{3}|-1) \+?(\d+)"
    rb' \S+ \S+ \S{4} (?:\d+/){4}\+?\d+ \d+/\d+ (?:\{[^"\n]{0,4096}\} )?"([A-Z]+) ([^" ]+)'
    rb'(?: HTTP/[\d.]+)?"'
)


def _haproxy(line: bytes) -> Parsed | None:
    """``option httplog``; ``httpslog`` has more behind it. Times have no zone: UTC is assumed.
    Bytes are those sent, headers included."""
    found = _HAPROXY.search(line)
    if found is None:
        return None
    stamp, milliseconds, status, sent, method, target = found.groups()
    at_ns = _time_ns(stamp)
    if at_ns is None:
        return None
    path, query = _split(target)
    return _http(
        method, path, query, status, at_ns, sent=_number(sent), received=UNKNOWN,
        duration_ns=int(milliseconds) * 1_000_000, bucket_alone=False,
    )  # fmt: skip


#: ``--log-format``
FORMATS: dict[str, Callable[[bytes], Parsed | None]] = {
    "swift": _swift,
    "s3": _s3,
    "beast": _beast,
    "haproxy": _haproxy,
    "combined": _combined,
}


class LineParser:
    """Parses the lines of one log. The format of a line is that of the last one, if it fits.

    :param format_name: a key of FORMATS; "": found by the lines.
    """

    def __init__(self, format_name: str = "") -> None:
        names = [format_name] if format_name else list(FORMATS)
        self._parsers = [FORMATS[name] for name in names]

    def parse(self, line: bytes) -> Parsed | None:
        """None if no format fits."""
        for at, parser in enumerate(self._parsers):
            found = parser(line)
            if found is not None:
                if at:
                    self._parsers.insert(0, self._parsers.pop(at))
                return found
        return None


_MASK = bytes.maketrans(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
    b"A" * 26 + b"a" * 26 + b"9" * 10,
)
_SHOWN = 70


def masked(line: bytes) -> str:
    """The start of a line with letters and digits replaced: its form, and nothing that it says."""
    start = line[: _SHOWN + 1].rstrip(b"\r\n")
    text = bytes(each if 32 <= each < 127 else 63 for each in start.translate(_MASK)).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
