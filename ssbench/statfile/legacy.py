"""Stat files of ssbench 0.3.9 as the records of today.

Such a file is gzip'ed msgpack of Python 2: a map, the scenario; then lists of maps, a result
each. What becomes of it:

- Times are wall-clock there. The run phase is said to start at a whole second, the one in which
  the first results started, so that our seconds are the seconds of 0.3.9's histogram.
- Its first-byte latency is the time to the answer's headers; it stands for both here. Latencies
  of exactly 0 are none, as in its reports.
- Sizes are known of uploads only, so READs move 0 bytes.
- A failed result has no latency and no start: it starts and ends when it was recorded.
- Failed results hold the job as it was sent, with the account's key in its ``auth_kwargs``. Of an
  exception its last line is kept, without anything that the job's ``auth_kwargs`` holds.
- Results without the fields that its own reports need are left out, and counted, as there.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any
from urllib.parse import quote, quote_plus

from ssbench.core.errors import StatFileError
from ssbench.core.model import NONE_NS, SECOND_NS, ErrorKind, Phase, Result
from ssbench.core.operations import CREATE, DELETE, READ, UPDATE
from ssbench.core.records import (
    PhaseRecord,
    Record,
    ResultBatch,
    RunFooter,
    RunHeader,
    WorkerRecord,
)
from ssbench.core.text import plural, printable

CHUNK = 10_000  #: results that are gathered into batches at a time
_LAST_SECOND = 1 << 33  #: times beyond are no times

_LONGEST = 10**8  #: seconds that a latency may have

_OPERATIONS = {
    b"upload_object": CREATE,
    b"get_object": READ,
    b"update_object": UPDATE,
    b"delete_object": DELETE,
}
_COPIED_KEYS = (
    "name", "user_count", "operation_count", "run_seconds", "container_base", "container_count",
    "container_concurrency", "delete_after",
)  # fmt: skip
_NO_PROFILE: list[float] = [1, 1, 1, 1]

#: What an exception's text says -> its kind; the first that fits.
_KINDS = [
    (re.compile(r"connect(ion)?_?\s?time(d\s)?out", re.I), ErrorKind.CONNECT_TIMEOUT),
    (re.compile(r"time(d\s)?\s?out", re.I), ErrorKind.NETWORK_TIMEOUT),
    (re.compile(r"refused|unreachable|no route", re.I), ErrorKind.CONNECT),
    (re.compile(r"reset by peer|broken pipe|disconnected", re.I), ErrorKind.RESET),
]
_STATUS = re.compile(r"(?<=\s)([1-5]\d\d)(?=\s|$|['\",])")
_CLIENT_EXCEPTION = re.compile(r"ClientException|\bfailed: http")
_TOKEN = re.compile(r"AUTH_tk\w+|(?i:token\S*\s*[:=]\s*)\S+")
_CLASS_NAME = re.compile(r"[A-Za-z.]{1,40}(?=\()")
_UNKNOWN = "unknown exception"
_DETAIL_LIMIT = 300
_DEPTH_LIMIT = 20


class LegacyRun:
    """The records of one file; ``damage`` and ``notes`` are filled up on the way."""

    def __init__(self, items: Iterator[Any], damage: list[str], notes: list[str]) -> None:
        """``items``: the file's msgpack objects, strings as bytes, the scenario first.

        :raises StatFileError: if that is no scenario of 0.3.9.
        """
        scenario = text_of(next(items, None))
        if not isinstance(scenario, dict) or not {"name", "_scenario_data"} <= scenario.keys():
            raise StatFileError("it is msgpack, but no stat file")
        self._top = scenario
        self._given = _dict(scenario["_scenario_data"])
        self._items = items
        self._damage = damage
        self._notes = notes
        self._sizes = _sizes(self._given)
        self._size_index = {size["name"]: i for i, size in enumerate(self._sizes)}
        self._workers: dict[str, int] = {}
        self._auth_kwargs: Any = None
        self._secrets: set[str] = set()
        self._left_out: Counter[str] = Counter()
        self._zeroes = 0
        self._number = 0
        self._first_start = _LAST_SECOND * SECOND_NS
        self._last_end = 0

    def records(self) -> Iterator[Record]:
        """All records. The footer is made up, where the file came to its regular end."""
        results = self._results()
        chunk = list(islice(results, CHUNK))
        self._add_sizes(chunk)
        header = self._header(chunk)
        rows = self._rows(chunk)
        started = min((row[1].start_ns for row in rows), default=int(header.started_at) * SECOND_NS)
        base_s = started // SECOND_NS
        yield header
        yield PhaseRecord(Phase.RUN, float(base_s), int(_or_zero(self._top.get("user_count"))))
        while chunk:
            yield from self._batches(rows, base_s * SECOND_NS)
            chunk = list(islice(results, CHUNK))
            rows = self._rows(chunk)
        self._conclude()
        if not self._damage:
            yield self._footer()

    def _results(self) -> Iterator[dict[bytes, Any]]:
        for item in self._items:
            for result in item if isinstance(item, list) else [item]:
                if isinstance(result, dict):
                    yield result
                else:
                    self._left_out["malformed"] += 1

    def _header(self, chunk: Iterable[dict[bytes, Any]]) -> RunHeader:
        noop = any(result.get(b"noop") is True for result in islice(chunk, 1))
        return RunHeader(
            run_id="",
            started_at=_started_at(chunk),
            ssbench_version=str(self._top.get("version") or "0.3.9"),
            scenario_given=self._given,
            scenario=self._scenario(),
            overrides={},
            seed=0,
            driver="noop" if noop else "swift",
        )

    def _scenario(self) -> dict[str, Any]:
        """What was run, as Scenario.to_dict gives it."""
        values = {key: self._top[key] for key in _COPIED_KEYS if self._top.get(key) is not None}
        values["sizes"] = self._sizes
        counts = _dict(self._given.get("initial_files"))
        values["initial_files"] = {
            size["name"]: counts.get(size["name"], 0) for size in self._sizes
        }
        return values

    def _add_sizes(self, chunk: Iterable[dict[bytes, Any]]) -> None:
        """Size classes that results name but the scenario doesn't."""
        for result in chunk:
            name = text_of(result.get(b"size_str"))
            if isinstance(name, str) and name not in self._size_index:
                self._size_index[name] = len(self._sizes)
                self._sizes.append(
                    {"name": name, "size_min": 0, "size_max": 0, "crud_profile": _NO_PROFILE}
                )

    def _rows(self, chunk: Iterable[dict[bytes, Any]]) -> list[tuple[str, Result]]:
        rows = []
        for result in chunk:
            try:
                rows.append(self._row(result))
            except _LeftOutError as error:
                self._left_out[str(error)] += 1
        return rows

    def _row(self, result: dict[bytes, Any]) -> tuple[str, Result]:
        """Worker and row of a result, its start still counted from 1970."""
        for key in (b"completed_at", b"worker_id", b"type", b"size_str"):
            if key not in result:
                raise _LeftOutError(f"without {key.decode()}")
        self._learn_secrets(result.get(b"auth_kwargs"))
        kind = result[b"type"]
        operation = _OPERATIONS.get(kind) if isinstance(kind, bytes) else None
        if operation is None:
            raise _LeftOutError("of an unknown type")
        size_class = self._size_index.get(str(text_of(result[b"size_str"])))
        if size_class is None:
            raise _LeftOutError("of an unknown size class")
        worker = printable(str(text_of(result[b"worker_id"])))[:100]
        end_ns, found = _wall_ns(result[b"completed_at"]), result.get(b"trans_id")
        row = Result(
            number=self._number + 1,
            operation=operation,
            size_class=size_class,
            object=_object_number(result.get(b"name")),
            due_ns=NONE_NS,
            start_ns=end_ns,
            headers_ns=NONE_NS,
            first_byte_ns=NONE_NS,
            last_byte_ns=NONE_NS,
            bytes_moved=0,
            retries=int(_number(result.get(b"retries"))),
            not_found_retries=0,
            rate_limited=0,
            reconnects=0,
            renewals=0,
            url=0,
            status=0,
            error=ErrorKind.NONE,
            unknown=0,
            transaction_id=found[:200].replace(b"\n", b" ") if isinstance(found, bytes) else b"",
        )
        row = self._failed(row, result) if b"exception" in result else self._done(row, result)
        self._number += 1
        self._last_end = max(self._last_end, end_ns)
        return worker, row

    def _done(self, row: Result, result: dict[bytes, Any]) -> Result:
        if b"last_byte_latency" not in result:
            raise _LeftOutError("without last_byte_latency")
        first = self._latency(result.get(b"first_byte_latency"))
        last = self._latency(result[b"last_byte_latency"])
        start_ns = row.start_ns - (0 if last == NONE_NS else last)
        self._first_start = min(self._first_start, start_ns)
        uploads = row.operation in (CREATE, UPDATE)
        return row._replace(
            start_ns=start_ns,
            headers_ns=first,
            first_byte_ns=first,
            last_byte_ns=last,
            bytes_moved=int(_number(result.get(b"size"))) if uploads else 0,
        )

    def _learn_secrets(self, auth_kwargs: Any) -> None:
        """All jobs of a run carry the same; a failed result without them may still quote them."""
        if auth_kwargs and auth_kwargs != self._auth_kwargs:
            self._auth_kwargs = auth_kwargs
            self._secrets = set()
            collect_secrets(auth_kwargs, self._secrets)

    def _failed(self, row: Result, result: dict[bytes, Any]) -> Result:
        text = text_of(result[b"exception"])
        detail = safe_detail(text if isinstance(text, str) else "", self._secrets)
        kind, status = kind_of(detail)
        return row._replace(error=kind, status=status, detail=detail)

    def _latency(self, value: Any) -> int:
        if value is None:
            return NONE_NS
        seconds = _number(value)
        if seconds == 0:
            self._zeroes += 1
            return NONE_NS
        if not -_LONGEST < seconds < _LONGEST:
            raise _LeftOutError("with an impossible latency")
        return round(seconds * SECOND_NS)

    def _batches(self, rows: Iterable[tuple[str, Result]], base_ns: int) -> Iterator[Record]:
        by_worker: dict[str, list[Result]] = {}
        for worker, row in rows:
            moved = row._replace(start_ns=row.start_ns - base_ns)
            by_worker.setdefault(worker, []).append(moved)
        for worker, own in by_worker.items():
            if worker not in self._workers:
                self._workers[worker] = len(self._workers)
                yield WorkerRecord(self._workers[worker], worker, "", 0, 0, "0.3.9")
            yield ResultBatch.of_rows(Phase.RUN, self._workers[worker], own)

    def _conclude(self) -> None:
        for reason, count in self._left_out.items():
            self._notes.append(f"{plural(count, 'result')} {reason}: left out")
        if self._zeroes:
            self._notes.append(f"latencies of exactly 0, taken for none: {self._zeroes:,}")

    def _footer(self) -> RunFooter:
        run_ns = self._last_end - self._first_start
        return RunFooter(self._last_end / SECOND_NS, "complete", "", max(run_ns, 0) / SECOND_NS)


class _LeftOutError(Exception):
    """Why a result can't be used."""


def _started_at(results: Iterable[dict[bytes, Any]]) -> float:
    """As 0.3.9 prints it: the first second, less the latency of its first result."""
    first_second, started_at = _LAST_SECOND, 0.0
    for result in results:
        try:
            second = _wall_ns(result.get(b"completed_at")) // SECOND_NS
            latency = _number(result.get(b"last_byte_latency"))
        except _LeftOutError:
            continue
        if second < first_second and b"exception" not in result:
            first_second, started_at = second, second - latency
    return started_at


def _sizes(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The scenario's size classes, each with its own profile, and with a name at least."""
    common = given.get("crud_profile", _NO_PROFILE)
    sizes = given.get("sizes")
    return [
        {
            "name": str(size["name"]),
            "size_min": int(_or_zero(size.get("size_min"))),
            "size_max": int(_or_zero(size.get("size_max"))),
            "crud_profile": _profile(size.get("crud_profile"), _profile(common, _NO_PROFILE)),
        }
        for size in (sizes if isinstance(sizes, list) else [])
        if isinstance(size, dict) and "name" in size
    ]


def _profile(value: Any, otherwise: list[float]) -> list[float]:
    sound = (
        isinstance(value, list)
        and len(value) == 4
        and all(type(weight) in (int, float) and 0 <= weight < math.inf for weight in value)
        and any(value)
    )
    return value if sound else otherwise


def _or_zero(value: Any) -> float:
    try:
        return _number(value)
    except _LeftOutError:
        return 0


def _dict(value: Any) -> dict[str, Any]:
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else {}


def _number(value: Any) -> float:
    """A finite number that fits 64 bits, as int or float; 0 for None."""
    if value is None:
        return 0
    if type(value) not in (int, float) or not -(2.0**62) < value < 2.0**62:
        raise _LeftOutError("with a malformed number")
    number: float = value
    return number


def _wall_ns(value: Any) -> int:
    """Seconds since 1970 to nanoseconds, to the last bit of the float."""
    seconds = _number(value)
    if not 0 < seconds < _LAST_SECOND:
        raise _LeftOutError("with an impossible time")
    whole = int(seconds)
    return whole * SECOND_NS + round((seconds - whole) * SECOND_NS)


def _object_number(name: Any) -> int:
    """``tiny_000012`` is object 12; 0 where the name tells no number."""
    digits = name.rpartition(b"_")[2] if isinstance(name, bytes) else b""
    return int(digits) if len(digits) < 18 and digits.isdigit() else 0


# Failed results, without secrets


def text_of(value: Any, depth: int = 0) -> Any:
    """Bytes become text wherever they are: utf-8, or latin-1 as some of Python 2's were.

    What is nested deeper than any scenario is cut off there.
    """
    if depth > _DEPTH_LIMIT:
        return None
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return value.decode("latin-1")
    if isinstance(value, list):
        return [text_of(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {text_of(key): text_of(item, depth + 1) for key, item in value.items()}
    return value


def collect_secrets(value: Any, secrets: set[str], depth: int = 0) -> None:
    """Every text of ``auth_kwargs``, in each spelling that it may have in an exception."""
    if depth > _DEPTH_LIMIT:
        return
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            collect_secrets(item, secrets, depth + 1)
    elif type(value) is int:
        secrets.add(str(value))
    elif isinstance(value, bytes) and value:
        text = text_of(value)
        escaped = repr(value)[2:-1]
        as_unicode = text.encode("unicode_escape").decode("ascii")
        secrets.update((text, escaped, as_unicode, quote(text), quote(text, ""), quote_plus(text)))


def safe_detail(exception: str, secrets: Iterable[str]) -> str:
    """The last line of an exception, without secrets, in printable characters."""
    quotes_job = "auth_kwargs" in exception
    for secret in sorted(secrets, key=len, reverse=True):
        exception = exception.replace(secret, "***")
    lines = _TOKEN.sub("***", exception).strip().splitlines()
    if quotes_job:
        # The text may quote any part of the job: keep only the name of the exception's class.
        name = _CLASS_NAME.match(exception)
        return name.group() if name else _UNKNOWN
    return printable(lines[-1].strip())[:_DETAIL_LIMIT] if lines else _UNKNOWN


def kind_of(detail: str) -> tuple[ErrorKind, int]:
    if _CLIENT_EXCEPTION.search(detail):
        status = _STATUS.search(detail)
        if status:
            return ErrorKind.STATUS, int(status.group())
    for pattern, kind in _KINDS:
        if pattern.search(detail):
            return kind, 0
    return ErrorKind.INTERNAL, 0
