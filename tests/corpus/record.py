"""Records the corpus anew, by real runs: ``python -m tests.corpus.record [NAME ...]``.

Tokens and passwords are those of servers that are gone when it ends, and are blotted out all the
same.
"""

from __future__ import annotations

import gzip
import json
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import msgpack

from ssbench.core.columns import pack_results
from ssbench.core.messages import (
    Addresses,
    Bye,
    Leaving,
    Network,
    NetworkInterval,
    NetworkResult,
    Profiled,
    Results,
    encode,
    pack,
)
from ssbench.core.model import RESULT_NUMBERS, Result
from ssbench.embedded import EmbeddedSwift, SwiftOptions
from ssbench.transport.key import CurveKey
from tests.corpus import HERE
from tests.e2e.commands import ROOT, Account, clean_environment, login, scenario
from tests.servers.keystone import TESTER, KeystoneSwift

OLD = ROOT / "tests" / "golden" / "ssbench-0.3.9"
_FRAMES_OF_A_KIND = 3
_QUIET_S = 0.3
_TOKENS = re.compile(rb"AUTH_tk[0-9a-f]{32}|gAAAA[\w=-]{50,}")

#: The master, but for one thing: what goes over its wire is put down as well.
_EAVESDROPPER = """
import sys
from pathlib import Path
from ssbench.cli.master import main
from ssbench.master import phase_machine
from ssbench.transport import master_transport

place, most, seen = Path(sys.argv.pop(1)), int(sys.argv.pop(1)), {}

def keep(data, message):
    kind = type(message).__name__.lower().removesuffix("state")
    seen[kind] = number = seen.get(kind, 0) + 1
    # The first ones, and some of what comes later: those say more.
    if number <= most or (number % 10 == 0 and number < 10 * most):
        (place / f"{kind}-{number}").write_bytes(data)

def encode(message, plain=master_transport.encode):
    data = plain(message)
    keep(data, message)
    return data

def decode(data, plain=master_transport.decode):
    message = plain(data)
    keep(data, message)
    return message

phase_machine.encode = master_transport.encode = encode
master_transport.decode = decode
sys.exit(main())
"""


def frames_and_stat_file() -> None:
    """Frames of every type, and the stat file, of a run whose token expires."""
    with tempfile.TemporaryDirectory() as top, EmbeddedSwift(SwiftOptions(token_life_s=2)) as swift:
        plan, stat_file = Path(top, "plan"), Path(top, "stat.gz")
        plan.write_text(json.dumps(scenario(initial_files={"tiny": 5})))
        (HERE / "frames").mkdir(exist_ok=True)
        for path in (HERE / "frames").iterdir():  # of an earlier protocol
            path.unlink()
        arguments = ["-f", plan, "-r", "3", "-b", "4", *login(swift), "--workers", "1"]
        subprocess.run(
            [sys.executable, "-c", _EAVESDROPPER, str(HERE / "frames"), str(_FRAMES_OF_A_KIND),
             "run-scenario", *map(str, arguments), "-s", str(stat_file)],
            env=clean_environment(), check=True, timeout=120,
        )  # fmt: skip
        failed = Result(*[7] * RESULT_NUMBERS, b"", "h: GET answered 404\N{SNOWMAN}")
        some = [pack_results([failed._replace(number=n) for n in range(count)]) for count in (1, 3)]
        put("frames", "leaving", encode(Leaving(1 << 62)))
        put("frames", "bye", encode(Bye(1 << 62, "the master says so")))
        stacks = {"main (a.py:1);run (b.py:22)": 12_345_678, "(other threads)": 1 << 40}
        put("frames", "profiled", encode(Profiled(1 << 62, "r", stacks, 300, 12_345)))
        named = Addresses(1 << 62, "r", 2, ("10.0.0.1:80", "[fd00::2]:80"))
        put("frames", "addresses", encode(named))
        second = NetworkInterval(1.0, 1 << 30, 0.0005)
        result = NetworkResult([0.0001, 0.0002], [second, second], [second])
        put("frames", "network", encode(Network(1 << 62, 3, result)))
        for number, packed in enumerate(some):
            put("frames", f"failed-{number}", encode(Results(5, "r", 2, [1, 300], pack(packed))))
        for path in (HERE / "frames").iterdir():
            path.write_bytes(blotted(path.read_bytes()))
    with tempfile.TemporaryDirectory() as top:
        plan, stat_file = Path(top, "plan"), Path(top, "noop.gz")
        plan.write_text(json.dumps(scenario()))
        arguments = ["-f", plan, "--noop", "--workers", "1", "-s", stat_file]
        subprocess.run(
            [sys.executable, "bin/ssbench-master", "run-scenario", *map(str, arguments)],
            env=clean_environment(), check=True, timeout=120, cwd=ROOT,
        )  # fmt: skip
        (HERE / "statfiles").mkdir(exist_ok=True)
        (HERE / "statfiles" / "noop").write_bytes(stat_file.read_bytes())


def legacy_files() -> None:
    """The beginnings of real files of ssbench 0.3.9: the scenario and some results."""
    for path in OLD.glob("*.stat.gz"):
        with gzip.open(path) as file:
            items = msgpack.Unpacker(file, raw=True)
            few = [next(items) for _ in range(6)]
        data = b"".join(msgpack.packb(item, use_bin_type=False) for item in few)
        put("legacy", path.name.split(".")[0], gzip.compress(data, mtime=0))


def answers_of_swift() -> None:
    """What a real Swift answers to each of our verbs, and to a login."""
    with EmbeddedSwift() as swift:
        account = Account(swift)
        base = urlsplit(swift.storage_url).path
        token = {"X-Auth-Token": account.token}

        def ask(name: str, method: str, path: str, body: bytes = b"", **headers: str) -> None:
            lines = {"Host": "h", **token, **{k.replace("_", "-"): v for k, v in headers.items()}}
            if method in ("PUT", "POST"):
                lines["Content-Length"] = str(len(body))
            raw = answer_to(swift.port, f"{method} {path}", lines, body)
            folder = "login" if name.startswith("v1") else "answers"
            put(folder, name, raw)
            if name in _BODIES:
                put(_BODIES[name], name, raw.partition(b"\r\n\r\n")[2])

        user = {"X_Auth_User": swift.user, "X_Auth_Key": swift.key}
        ask("v1", "GET", urlsplit(swift.auth_url).path, **user)
        ask("v1-refused", "GET", urlsplit(swift.auth_url).path, **{**user, "X_Auth_Key": "no"})
        ask("info", "GET", "/info")
        ask("put-container", "PUT", f"{base}/c")
        ask("post-container", "POST", f"{base}/c", X_Container_Meta_A="b")
        for name in ("plain", "with%20blank", "a/b", "%C3%BC%3C&%22", "tiny_0_000001"):
            ask("put", "PUT", f"{base}/c/{name}", b"x" * 20)
        ask("get", "GET", f"{base}/c/plain")
        ask("get-range", "GET", f"{base}/c/plain", Range="bytes=1-4")
        ask("head", "HEAD", f"{base}/c/plain")
        ask("post", "POST", f"{base}/c/plain", X_Object_Meta_A="b")
        ask("containers", "GET", f"{base}?format=json")
        ask("objects", "GET", f"{base}/c?format=json")
        ask("objects-delimited", "GET", f"{base}/c?format=json&delimiter=/")
        ask("no-object", "GET", f"{base}/c/none")
        ask("not-empty", "DELETE", f"{base}/c")
        ask("delete", "DELETE", f"{base}/c/plain")
        ask("unauthorized", "GET", f"{base}/c/plain", X_Auth_Token="no")
        ask(
            "bulk", "POST", f"{base}?bulk-delete", b"c/a/b\nc/none\nc\n" + b"c/" + b"y" * 2000,
            Content_Type="text/plain", Accept="application/json",
        )  # fmt: skip


_BODIES = {
    "info": "swift-json", "containers": "swift-json", "objects": "swift-json",
    "objects-delimited": "swift-json", "bulk": "swift-json",
}  # fmt: skip


def answers_of_keystone() -> None:
    """A real Keystone's answers to logins, good and bad."""
    with KeystoneSwift() as keystone:
        url = urlsplit(keystone.auth_url)
        for name, password in (("v3", TESTER.password), ("v3-refused", "no")):
            domain = {"name": TESTER.domain}
            user = {"name": TESTER.user, "domain": domain, "password": password}
            body = json.dumps({"auth": {
                "identity": {"methods": ["password"], "password": {"user": user}},
                "scope": {"project": {"name": TESTER.project, "domain": domain}},
            }}).encode()  # fmt: skip
            headers = {
                "Host": url.netloc,
                "Content-Type": "application/json",
                "Content-Length": str(len(body)),
            }
            assert url.port
            put("login", name, answer_to(url.port, "POST /v3/auth/tokens", headers, body))


def key() -> None:
    """A key that nobody uses."""
    put("keys", "made", CurveKey.generate().to_text().encode())


def answer_to(port: int, request: str, headers: dict[str, str], body: bytes) -> bytes:
    """All bytes of an answer."""
    lines = [f"{request} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        sock.settimeout(10)
        answer = sock.recv(65536)
        sock.settimeout(_QUIET_S)
        try:
            while piece := sock.recv(65536):
                answer += piece
        except TimeoutError:
            pass
    return answer


def put(folder: str, name: str, data: bytes) -> None:
    (HERE / folder).mkdir(exist_ok=True)
    (HERE / folder / name).write_bytes(blotted(data))


def blotted(data: bytes) -> bytes:
    """Without tokens, and as long as before."""
    return _TOKENS.sub(lambda found: b"AUTH_tk" + b"0" * (len(found[0]) - 7), data)


RECORDERS: dict[str, Callable[[], None]] = {
    "run": frames_and_stat_file,
    "legacy": legacy_files,
    "swift": answers_of_swift,
    "keystone": answers_of_keystone,
    "key": key,
}

if __name__ == "__main__":
    for wanted in sys.argv[1:] or RECORDERS:
        began = time.monotonic()
        RECORDERS[wanted]()
        print(f"{wanted}: {time.monotonic() - began:.1f} s")
