"""Each decoder of what others send or wrote: any bytes give a value, or one error of ours, within
bounds.

``make test`` tries each row of DECODERS with spoilt inputs and with long ones, ``make fuzz`` with
what atheris finds from the same seeds.
"""

from __future__ import annotations

import cProfile
import gzip
import io
import json
import re
import socket
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, get_args
from urllib.parse import quote, unquote

import pytest

from ssbench.cli.site import SiteDefaults
from ssbench.commands.replay.formats import FORMATS as LOG_FORMATS
from ssbench.commands.replay.formats import UNKNOWN, LineParser, LoggedRequest, masked
from ssbench.commands.transfer.settings import env_file
from ssbench.core import messages
from ssbench.core.columns import JOB_SCHEMAS, JobLayout, pack_results
from ssbench.core.errors import MessageError, ScenarioError, SsbenchError
from ssbench.core.hostlist import MAX_HOSTS, parse_hosts
from ssbench.core.messages import Jobs, Results, decode, encode
from ssbench.core.model import RESULT_NUMBERS, LargeObject, SizeClass, Timing, WorkerExit
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.scenario.values import crud_profile
from ssbench.core.settings import Credentials, StorageSettings
from ssbench.core.stats import series
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.text import MAX_KEY, printable
from ssbench.live import control
from ssbench.live.web import WebServer
from ssbench.report import FORMATS, render, render_html
from ssbench.report.as_csv import rps_csv
from ssbench.report.run import of_run
from ssbench.runner.stop import Stop
from ssbench.statfile import read
from ssbench.statfile.format import BlockBuilder, objects
from ssbench.storage.http.response import UNTIL_CLOSE, ChunkedBody, parse_head
from ssbench.storage.s3.bodies import Xml, error_of, time_of
from ssbench.storage.swift.bodies import Listing, bulk_result, container_info, store_limits
from ssbench.storage.webdav.client import Multistatus
from ssbench.transport import network
from ssbench.transport.key import CurveKey
from ssbench.transport.parent_pipe import GroupStarted, from_line, read_address, to_line
from tests.corpus import recorded
from tests.fakes.batches import unpack_results
from tests.fakes.mutations import EXAMPLES, JSON_VALUES, MSGPACK_WORDS, spoilt
from tests.fakes.terminal import must_be_line, must_be_lines, steering

Words = Sequence[bytes]


class Decoder(NamedTuple):
    """How to call a decoder, and what it promises."""

    read: Callable[[bytes], object]  #: asserts what is true of each value
    seeds: Callable[[], Sequence[bytes]]  #: valid inputs
    words: Words = ()  #: what means something to it
    calls: int = 20_000  #: of functions, for any input; and for each byte of it
    calls_per_byte: int = 60
    memory: int = 8 << 20  #: bytes, likewise
    memory_per_byte: int = 100
    examples: int = EXAMPLES
    #: bytes: more digits than int() takes, more nested maps of JSON than frames of Python
    endless: int = 8_000

    def check(self, data: bytes) -> None:
        """Invariant: a value, or an error of ours in printable lines."""
        try:
            self.read(data)
        except ScenarioError as error:
            must_be_lines(error.faults)
        except SsbenchError as error:
            must_be_line(error)

    def check_work(self, data: bytes) -> None:
        """Invariant: likewise, after calls of functions in proportion to the bytes, whatever the
        machine's speed."""
        with cProfile.Profile(subcalls=False) as profile:
            self.check(data)
        calls = sum(each.callcount for each in profile.getstats())
        assert calls <= self.calls + self.calls_per_byte * len(data)

    def check_memory(self, data: bytes) -> None:
        """Invariant: likewise, and within memory in proportion to the bytes."""
        tracemalloc.start()
        try:
            self.check_work(data)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak <= self.memory + self.memory_per_byte * len(data)


# Messages -------------------------------------------------------------------------------------

ANY_MESSAGE = get_args(messages.Message)
PLAIN = (type(None), bool, int, float, str, bytes, list, dict)
OWN_JOBS = JobLayout(JOB_SCHEMAS[0])


def a_message(data: bytes) -> None:
    message = decode(data)
    assert type(message) in ANY_MESSAGE
    assert encode(decode(encode(message))) == encode(message), "it can be sent on as it is"


def plain_data(data: bytes) -> None:
    """Of messages, of stat files, and of those of 0.3.9, whose strings are bytes."""
    for raw in (False, True):
        said: list[str] = []
        for item in objects([data], said.append, raw=raw):
            _check_plain(item, bytes if raw else str)
        assert len(said) <= 1
    with suppress(MessageError):  # numbers as keys, in a message
        _check_plain(messages.unpack(data), str)


def _check_plain(value: Any, keys: type) -> None:
    assert type(value) in PLAIN
    if type(value) is dict:
        assert all(type(key) is keys and len(key) <= MAX_KEY for key in value)
        value = list(value.values())
    if type(value) is list:
        for item in value:
            _check_plain(item, keys)


def a_batch(data: bytes) -> None:
    with suppress(MessageError):
        jobs = OWN_JOBS.decode(data)
        assert all(type(value) is int for job in jobs for value in (*job[:7], job.group))
        return
    packed = messages.unpack(data)
    *numbers, ids, details = unpack_results(packed)[: RESULT_NUMBERS + 2]
    assert {len(column) for column in (*numbers, ids, details)} == {packed[0]}
    assert all(type(value) is int for column in numbers for value in column)
    assert {*map(type, ids), *map(type, details)} == {bytes, str}


def storage_settings(data: bytes) -> None:
    values = messages.unpack(data)
    if type(values) is dict:
        found = StorageSettings.from_map(values)
        assert type(found.driver) is str
        assert type(found.container_count) is type(found.block_size) is int
        assert all(isinstance(each, SizeClass) for each in found.sizes)
        sent = messages.pack(found.to_map())
        # Packed, as a weight may be no number, and isn't like itself then.
        again = StorageSettings.from_map(messages.unpack(sent))
        assert messages.pack(again.to_map()) == sent


def packed_batches() -> list[bytes]:
    """The jobs and results in recorded messages, as msgpack."""
    found = map(decode, recorded("frames"))
    packed = [message.packed for message in found if isinstance(message, Jobs | Results)]
    rows = [(*range(at, RESULT_NUMBERS + at), b"id", "why") for at in range(3)]
    return [*packed, messages.pack(pack_results(rows))]


SETTINGS = StorageSettings(
    run_id="abc",
    sizes=(SizeClass("tiny", 1, 10, crud_profile([1, 1, 1, 1]), 7),),
    headers=((1, "A: b\r\n"),),
    large_object=LargeObject(9, 5),
    names={"kind": "run"},
    store={"urls": ["http://a/v1/x"], "insecure": False},
    credentials=(Credentials(3, 1e9, {"token": "t"}),),
)


# Stat files -----------------------------------------------------------------------------------


def a_report(data: bytes) -> None:
    """In every format; it steers no terminal, and says so where the file is not whole."""
    with read(io.BytesIO(data)) as run:
        stats = RunStats.of(run)
        stats.run.damage += run.damage
    with pytest.MonkeyPatch.context() as patch:
        # A row a second up to 115 days is fine, but not 2,000 times.
        patch.setattr(series, "MAX_SECONDS", 40)
        report = of_run(stats)
        texts = {name: render(report, name) for name in FORMATS if name != "html"}
        texts["html"] = render_html(report, "plotly.js")  # that script has any character
        rows = rps_csv(report)
    assert not steering("".join(texts.values()) + rows)
    assert rows.count("\n") <= 42
    json.loads(texts["json"])
    assert texts["text"].count("\nTOTAL\n") == 1
    assert stats.run.complete == ("INCOMPLETE" not in texts["text"])


def a_report_of_records(data: bytes) -> None:
    """Of what is in a block with a right checksum."""
    builder = BlockBuilder()
    builder.add(data)
    a_report(builder.finish(0))


def inflated(folder: str) -> list[bytes]:
    return [gzip.decompress(data) for data in recorded(folder)]


# Files of the user ----------------------------------------------------------------------------


def a_scenario(data: bytes) -> None:
    """Or a list of errors, each with its place and what would be right."""
    ends = {} if b'"stages"' in data else {"operation_count": 7}
    try:
        scenario = Scenario.resolve(data, "x", **ends)
    except ScenarioError as error:
        lines = error.faults
        assert all(re.match(r".+: .+; .+|x: and [\d,]+ more errors", line) for line in lines)
        raise
    must_be_line(scenario.summary())
    assert Scenario.from_json(json.dumps(scenario.to_dict())) == scenario, "JSON can carry it"


@contextmanager
def _file(data: bytes) -> Iterator[Path]:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        yield Path(file.name)


def site_file(data: bytes) -> None:
    with _file(data) as path:
        assert SiteDefaults.read({"SSBENCH_CONFIG": str(path)}).content is not None


def env_variables(data: bytes) -> None:
    with _file(data) as path:
        assert all(name.startswith(("ST_", "OS_")) for name in env_file(path, {}))


def hosts(data: bytes) -> None:
    """No option of ssh among them."""
    found = parse_hosts(data.decode("latin-1"))
    assert 0 < len(found) <= MAX_HOSTS
    assert all(re.fullmatch(r"(?!-)[\w.+@:%-]+", host.target) for host in found)


NO_KEY = "a file: not a key of ssbench; `ssbench-master make-key FILE` writes one"


def key_file(data: bytes) -> None:
    text = data.decode("ascii", "replace")
    try:
        key = CurveKey.from_text(text, "a file")
    except SsbenchError as error:
        assert str(error) == NO_KEY  # noqa: PT017 - an error is one of two fine outcomes
        raise
    assert key.to_text().split() == text.split()
    assert not any(word in repr(key) for word in text.split()[1:])


def log_line(line: bytes) -> None:
    for name in LOG_FORMATS:
        found = LineParser(name).parse(line)
        if isinstance(found, LoggedRequest):
            assert min(found.size, found.moved) >= UNKNOWN
            assert abs(found.at_ns) < 1 << 62
            assert found.name or not found.request.endswith("OBJECT")
    shown = masked(line)
    assert shown.isascii()
    assert shown.isprintable() or not shown
    assert len(shown) <= 73


# Between processes ----------------------------------------------------------------------------


def parent_line(data: bytes) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        found = read_address(file.fileno())
    assert found is None or all(1 <= port <= 65535 for port in found.ports)


def group_line(data: bytes) -> None:
    found = from_line(data.decode("utf-8", "surrogateescape"))
    if found is not None:
        assert from_line(to_line(found)) == found
        names = [found.worker_id] if isinstance(found, WorkerExit) else [*found.workers]
        must_be_line("".join(names))


STARTED = GroupStarted("1.0.0", 1763800000.5, "2001:db8::7", {"a-0": 1, "a-1": 2})
GROUP_LINES = [
    to_line(STARTED).encode(),
    to_line(WorkerExit("a-0", 1, "it exited with status 1", 1)).encode(),
]
PARENT_LINES = [
    b'{"host": "127.0.0.1", "ports": [1, 2, 3], "key": "", "paths": ["/a"]}\n',
    json.dumps({"host": "h", "ports": [1, 2, 3], "key": recorded("keys")[0].decode(), "paths": []})
    .encode(),
]  # fmt: skip


def network_body(data: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, len(data) + 4096)
        theirs.settimeout(5)
        with suppress(TimeoutError):
            theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        intervals, round_trips_s = network.receive_body(
            ours, network.MeasureRequest("send", 0, 1.0)
        )
    assert sum(each.size_bytes for each in intervals) <= len(data)
    json.dumps(round_trips_s, allow_nan=False)


def control_socket(data: bytes) -> None:
    """A mark, as the master records it, and what the other side shows of an answer."""
    with suppress(MessageError):
        request = control.request_of(data)
        stop = Stop()
        if request.mark is not None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("ssbench.runner.stop._TAKEN_S", 0.0)
                must_be_line(stop.mark(request.mark, "me"))
    answer = control.answer_of(data)
    must_be_line("".join(map(printable, (answer.run_id, answer.scenario, answer.fault))))


CONTROL = [
    b'{"mark": "node 3 down"}',
    b'{"run_id": "abc", "scenario": "x", "fault": "a mark needs a text"}',
]


class _Site:
    """A page, and no button."""

    def get(self, path: str, query: object) -> None:
        return None

    def post(self, path: str) -> bool:
        return False


@cache
def _web() -> tuple[WebServer, int]:
    server = WebServer(("127.0.0.1", 0), _Site())
    return server, int(server.url.split(":")[2].split("/")[0])


def web_request(data: bytes) -> None:
    """A stranger gets an error page, or nothing."""
    _server, port = _web()
    answer = b""
    with suppress(ConnectionError), socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(data)
        with suppress(OSError):  # closed meanwhile
            client.shutdown(socket.SHUT_WR)
        while piece := client.recv(65536):
            answer += piece
    assert not answer or re.match(rb"(HTTP/1.0 [45]|<!DOCTYPE)", answer), answer[:100]


WEB_REQUESTS = [
    b"GET /?token=x HTTP/1.1\r\nHost: localhost\r\nCookie: ssbench-1=x; a\r\n\r\n",
    b"POST /stop HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n\r\n",
]

# What stores answer ---------------------------------------------------------------------------


def response_head(data: bytes) -> None:
    for bodiless in (True, False):
        head, headers = parse_head(data, bodiless=bodiless)
        assert 100 <= head.status <= 599
        assert UNTIL_CLOSE <= head.length < 10**18
        assert data[head.end - 4 : head.end] == b"\r\n\r\n"
        assert not bodiless or head.length == 0
        assert b"\r\n" not in head.transaction_id
        assert all("\r\n" not in value for value in headers.values())


def chunked_body(data: bytes) -> None:
    """The same in whatever pieces, or an error in all; the first two bytes say which pieces."""
    chance, data = Random(data[:2]), data[2:]
    found: list[object] = []
    for most in (len(data), chance.choice((1, 3, 50))):
        body, at, text = ChunkedBody(), 0, b""
        try:
            while at < len(data) and not body.done:
                size = chance.randint(1, most)
                text += b"".join(map(bytes, body.feed(memoryview(data)[at : at + size])))
                at += size
        except SsbenchError as error:
            must_be_line(error)
            found.append(None)
        else:
            found.append((body.done, text))
    assert found[0] == found[1]


CHUNKED_BODIES = [
    b"12" + b"3\r\nabc\r\n12c\r\n" + b"x" * 300 + b"\r\n0\r\n\r\n",
    b"34" + b"1;a=b\r\ny\r\n0\r\nX: 1\r\n\r\n",
]


def swift_json(body: bytes) -> None:
    """Names that fit a URL; limits and facts are unknown at worst."""
    assert store_limits(body)
    facts = container_info({"x-container-object-count": body.decode("latin-1")})
    assert facts.object_count is None or 0 <= facts.object_count < 10**18
    listing = Listing(1000)
    listing.add(memoryview(body))
    for found in (
        lambda: [entry.name for entry in listing.containers()],
        lambda: [entry.name for entry in listing.objects()],
        lambda: [entry.name for entry in listing.versions()],
        lambda: [name for name, _status in bulk_result(body).failures],
    ):
        with suppress(SsbenchError):
            assert all(unquote(quote(name, safe="")) == name for name in found())


def s3_xml(data: bytes) -> None:
    xml = Xml(3)
    xml.feed(memoryview(data))
    with suppress(SsbenchError):
        xml.check("ListBucketResult")
    assert len(xml.records) <= 3
    assert all(len(text) <= 16_384 for text in xml.values.values())
    assert str(error_of(data)).isprintable()
    assert all(time_of(each.get("Initiated", "")) >= 0 for each in xml.of("Upload"))


def multistatus(data: bytes) -> None:
    """Members with a path and a size."""
    members: list[Any] = []
    parser = Multistatus(lambda *member: members.append(member))
    for start in range(0, len(data), 64):
        parser.feed(memoryview(data)[start : start + 64])
    parser.finish(Timing(1, 1, 1, 0, 207))
    assert all(path and size >= 0 for path, size, *_ in members)


def _elsewhere(place: str) -> Callable[..., Any]:
    """What stands in the tests of a decoder whose values need its scene."""
    module, _, name = place.partition(":")

    def call(*given: Any) -> Any:
        found = getattr(import_module(f"tests.{module}"), name)
        return found(*given) if callable(found) else found

    return call


_HTTP_WORDS = (
    b"\r\n\r\n", b"\n", b"\r\nContent-Length: 7", b"\r\ncontent-length:7", b"\r\nConnection: close",
    b"\r\nTransfer-Encoding: chunked", b"\r\nX-Trans-Id:  tx7 ", b"\r\nContent-Length : 9",
    b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 204 X\r\n", b"\xff", b"\0",
)  # fmt: skip
_XML_WORDS = (
    b"<!DOCTYPE x [<!ENTITY a 'b'>]>", b"&a;", b"&#0;", b"<a>", b"</a>", b"<![CDATA[", b"]]>",
    b"-1", b"9" * 5000, b"xmlns='x'", b"\xff", b"\xed\xa0\x80", b"<a", b"=''", b"<?x", b"%2F",
)  # fmt: skip
_TEXT_WORDS = (
    b"=", b"\n", b"\r", b"#", b"export ", b"[", b"]", b"{", b"}", b",", b"..", b'"', b"'", b"\\",
    b"\x1b[2J", b"\0", b"\xff", b"\xe2\x80\xae", b"9" * 30, b"-1", b"nan", b"1e999", b"%", b":",
)  # fmt: skip
#: Each example makes seven reports.
_OF_REPORTS = partial(Decoder, calls=400_000, memory=60 << 20, examples=EXAMPLES // 5)

DECODERS: dict[str, Decoder] = {
    "messages": Decoder(a_message, lambda: recorded("frames"), MSGPACK_WORDS),
    "unpacking": Decoder(
        plain_data, lambda: [*recorded("frames"), *packed_batches()], MSGPACK_WORDS
    ),
    "batches": Decoder(a_batch, packed_batches, MSGPACK_WORDS),
    "settings": Decoder(
        storage_settings, lambda: [messages.pack(SETTINGS.to_map())], MSGPACK_WORDS
    ),
    "results": Decoder(
        _elsewhere("core.dispatch.test_dispatcher:accounted_for"),
        _elsewhere("core.dispatch.test_dispatcher:results_of_the_field"),
        MSGPACK_WORDS,
    ),
    "hellos": Decoder(
        _elsewhere("core.dispatch.test_workers:bounded"),
        _elsewhere("core.dispatch.test_workers:HELLOS"),
    ),
    "clocks": Decoder(
        _elsewhere("master.test_clock_skew:reckoned"),
        _elsewhere("master.test_clock_skew:CLOCKS"),
    ),
    "stat-file": _OF_REPORTS(a_report, lambda: recorded("statfiles") + recorded("legacy")),
    "records": _OF_REPORTS(a_report_of_records, partial(inflated, "statfiles"), MSGPACK_WORDS),
    "old-stat-file": _OF_REPORTS(
        lambda data: a_report(gzip.compress(data, 1)), partial(inflated, "legacy"), MSGPACK_WORDS
    ),
    "resume": Decoder(
        _elsewhere("runner.test_orphans:resumable"),
        _elsewhere("runner.test_orphans:record_seeds"),
        MSGPACK_WORDS,
    ),
    "scenario": Decoder(
        a_scenario,
        lambda: [
            *(path.read_bytes() for path in sorted(Path("scenarios").glob("*.scenario"))),
            b'name = "x"\nuser_count = 3\ncrud_profile = [1, 1, 1, 1]\n[[sizes]]\nname = "y"\n'
            b'size = "4k"\n'
            b"[initial_files]\ny = 3\n",
            *_elsewhere("core.scenario.test_keys:SEEDS")(),
        ],
        JSON_VALUES,
    ),
    "cosbench": Decoder(
        _elsewhere("commands.test_converted:decoded"),
        lambda: [_elsewhere("commands.test_converted:WORKLOAD")()],
        _XML_WORDS,
    ),
    "warp": Decoder(
        _elsewhere("commands.test_converted:decoded_command"),
        _elsewhere("commands.test_converted:COMMANDS"),
        _TEXT_WORDS,
    ),
    "site-file": Decoder(
        site_file,
        lambda: [b'workers = 4\n[run-scenario]\nstorage = "s3"\nheader = ["a: b"]\n'],
        _TEXT_WORDS,
        memory_per_byte=2_000,
    ),
    "identities": Decoder(
        _elsewhere("storage.test_identities:decoded"),
        _elsewhere("storage.test_identities:FILES"),
        JSON_VALUES,
    ),
    "env-file": Decoder(
        env_variables,
        lambda: [b"# x\nexport ST_USER='a b' # c\nSWIFT_AUTH_URL=http://h/v3\nST_KEY=k"],
        _TEXT_WORDS,
    ),
    "aws-profiles": Decoder(
        _elsewhere("storage.s3.test_login:profiles_read"),
        _elsewhere("storage.s3.test_login:PROFILES"),
        _TEXT_WORDS,
        calls=200_000,  # of botocore, to make a client
        memory=24 << 20,
        examples=EXAMPLES // 10,
    ),
    "clouds": Decoder(
        _elsewhere("storage.swift.test_clouds:cloud_read"),
        _elsewhere("storage.swift.test_clouds:CLOUDS"),
        (*_TEXT_WORDS, b"&a ", b"*a", b"- ", b": ", b"\n  ", b"!!set ", b"<<: *a\n", b"*b, *b, *b"),
        calls=100_000,
        calls_per_byte=600,  # PyYAML is Python
        memory_per_byte=2_000,
        examples=EXAMPLES // 10,
        endless=1_000,
    ),
    "environment": Decoder(
        _elsewhere("cli.test_config:environment_used"),
        lambda: recorded("environments"),
        _TEXT_WORDS,
        calls=200_000,
    ),
    "hosts": Decoder(
        hosts,
        lambda: [b"bench-{01..20}:4,admin@[2001:db8::7]\n# c\na{b,c{1..3}}:auto"],
        (*_TEXT_WORDS, b",-"),
    ),
    "key": Decoder(key_file, lambda: recorded("keys"), _TEXT_WORDS),
    "access-log": Decoder(log_line, _elsewhere("commands.test_log_formats:SEEDS"), _TEXT_WORDS),
    "parent-pipe": Decoder(parent_line, lambda: PARENT_LINES, JSON_VALUES),
    "group-lines": Decoder(group_line, lambda: GROUP_LINES, JSON_VALUES),
    "network": Decoder(network_body, lambda: recorded("network"), JSON_VALUES, memory=16 << 20),
    "control-socket": Decoder(control_socket, lambda: CONTROL, JSON_VALUES),
    "web": Decoder(web_request, lambda: WEB_REQUESTS, _HTTP_WORDS),
    "http-head": Decoder(
        response_head, lambda: [*recorded("answers"), *recorded("login")], _HTTP_WORDS
    ),
    "http-layouts": Decoder(
        _elsewhere("storage.http.test_response:read_alike"),
        _elsewhere("storage.http.test_response:TWO_HEADS"),
        _HTTP_WORDS,
    ),
    "http-chunks": Decoder(chunked_body, lambda: CHUNKED_BODIES, (b"f" * 16, b"f" * 13, b"+1")),
    "http-pieces": Decoder(
        _elsewhere("storage.http.test_connection:same_in_pieces"),
        _elsewhere("storage.http.test_connection:ANSWERS"),
        _HTTP_WORDS,
    ),
    "swift-json": Decoder(swift_json, lambda: recorded("swift-json"), JSON_VALUES),
    "s3-xml": Decoder(s3_xml, _elsewhere("storage.s3.test_bodies:RESPONSES"), _XML_WORDS),
    "multistatus": Decoder(
        multistatus, _elsewhere("storage.webdav.test_bodies:RESPONSES"), _XML_WORDS
    ),
    "challenges": Decoder(
        _elsewhere("storage.webdav.test_digest:answered"),
        _elsewhere("storage.webdav.test_digest:CHALLENGES"),
        _TEXT_WORDS,
    ),
    "login": Decoder(
        _elsewhere("storage.swift.test_login:logged_in_or_refused"),
        lambda: recorded("login"),
        (*JSON_VALUES, *_HTTP_WORDS),
        memory=48 << 20,  # of the first one that is printed as text of another encoding
        examples=EXAMPLES // 2,
    ),
}


@pytest.mark.parametrize("name", DECODERS)
def test_seeds_are_values(name: str) -> None:
    decoder = DECODERS[name]
    assert decoder.seeds()
    for seed in decoder.seeds():
        decoder.read(seed)


@pytest.mark.fuzz
@pytest.mark.parametrize("name", DECODERS)
def test_any_bytes_give_a_value_or_one_error(name: str) -> None:
    decoder = DECODERS[name]
    with suppress(SsbenchError):
        decoder.read(b"")  # imports
    for data in spoilt(decoder.seeds(), decoder.words, decoder.examples):
        try:
            decoder.check_work(data)
        except BaseException:
            print(f"{name} of {data!r}")
            raise


#: What is repeated, or nested, without an end: many bytes of each, alone and within a seed.
ENDLESS = [
    b"\x91", b"\x81\x01", b"\x81", b"\x81\xa1a", b"\x90", b"\x80", b"\xc0", b"\xdd\x00\x01\x00\x00",
    b"\xdc\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x01", b"\xc7\x0c\xff" + bytes(12), b"\0",
    b"\xff",
    b"[", b'{"a":', b'[{"a":', b"{}, ", b'"a",', b"9", b"1,", b"-", b'"', b'"a": 1, ', b"\\",
    b"<a>", b"<a/>", b"<", b"&amp;", b"&#65;", b"<a b='c'/>", b"\r\n", b"\n", b" ", b"\t", b"a",
    b"a: b\r\n", b"1\r\na\r\n", b"0", b"{1..9}",
    b"{a,b}", b"a=[", b"a.", b"[a]\n", b"a = 1\n", b",", b":",
    b";", b"%25", b'\\"', b"\xc3\xa9", b"x ",
]  # fmt: skip


@pytest.mark.parametrize("name", DECODERS)
def test_endless_input_takes_work_and_memory_in_proportion(name: str) -> None:
    """What takes more than linear time in C is not counted: pytest's timeout ends it."""
    decoder = DECODERS[name]
    seed = decoder.seeds()[0]
    decoder.read(seed)  # imports
    for piece in (each for each in ENDLESS if each.isascii() == seed.isascii()):
        for start, end in ((b"", b""), (seed[: len(seed) // 2], seed[len(seed) // 2 :])):
            data = start + piece * (decoder.endless // len(piece)) + end
            decoder.check_memory(data)
