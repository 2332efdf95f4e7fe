"""Keys, passwords and tokens: in the head of the request, and nowhere else.

Every run here is looked at from all sides: the process list and the environments while it runs,
and afterwards every file that came of it, screens, logs, results and profiles, unpacked.
"""

from __future__ import annotations

import contextlib
import gzip
import re
import subprocess
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from ssbench.core.errors import ExitStatus
from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import (
    Account,
    Commands,
    Started,
    free_ports,
    logins,
    requests,
    until,
)
from tests.e2e.stores import Store, http_stores
from tests.fakes.auth_v1 import AuthV1
from tests.fakes.breaking_proxy import Lie, Response
from tests.fakes.loopback_http import Answer, LoopbackServer, Request
from tests.servers.swift import swift_options

#: What tokens look like, of tempauth and of Keystone (fernet), whichever one it was.
TOKENS = re.compile(rb"AUTH_tk[0-9a-f]{8}|gAAAAA[\w-]{20}")
ALWAYS = ("X-Auth-Token:", "X-Auth-Key:")


def family(pid: int) -> list[int]:
    """The process and all below it."""
    # psutil reads the files of all processes of the host for this: 15 ms of CPU for each look.
    children: list[str] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            children += (task / "children").read_text().split()
    return [pid, *(each for child in children for each in family(int(child)))]


def facts(pid: int, *names: str) -> str:
    """Files of a process in /proc, "" for one that is gone."""
    with contextlib.suppress(OSError):
        data = [Path(f"/proc/{pid}/{name}").read_bytes() for name in names]
        return b"\0".join(data).decode(errors="replace")
    return ""


class Watcher:
    """Looks at the process list, again and again, while a command runs. A context manager.

    The command must be a program: a fork has the environment of its fork server in /proc.
    """

    def __init__(self, started: Started) -> None:
        self.public: set[str] = set()  #: command lines and names, as any user sees them
        self.inherited: set[str] = set()  #: environments of the children
        assert isinstance(started.process, subprocess.Popen)
        self._started = started
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._over.is_set():
            looked_s = time.thread_time()
            own, *children = family(self._started.pid)
            self.public.add(facts(own, "cmdline", "comm"))
            line = facts(own, "cmdline")
            for child in children:
                childs_line = facts(child, "cmdline")
                self.public.add(childs_line)
                # Between fork and exec a child is its parent's image, environment and all.
                if childs_line != line:
                    self.inherited.add(facts(child, "environ"))
            # The cores are for the run.
            time.sleep(max(0.02, 4 * (time.thread_time() - looked_s)))

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()


def artefacts(place: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file that came of the run, unpacked."""
    for path in place.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            yield path, data
            if path.suffix == ".gz":
                with contextlib.suppress(EOFError, OSError):
                    yield path, gzip.decompress(data)


def nowhere(place: Path, *secrets: str) -> None:
    """No secret is in any file but in those whose name says that it is one."""
    seen = 0
    for path, data in artefacts(place):
        seen += 1
        for secret in (*secrets, *ALWAYS):
            if path.suffix != ".key":
                assert secret.encode() not in data, f"{path} has the secret {secret[:4]}..."
        found = TOKENS.search(data)
        assert not found, f"{path} has a token"
    assert seen >= 4


def none_has(texts: set[str], *secrets: str) -> None:
    for text in texts:
        for secret in secrets:
            assert secret not in text, f"{secret[:4]}... can be seen"
    assert texts


KEY = "Xq7-key-of-nobody-else"


@pytest.fixture(scope="module")
def keyed_swift() -> Iterator[EmbeddedSwift]:
    """A Swift with a key that is no common word; tokens run out in the middle of the run."""
    conf = {"filter:tempauth": {"user_test_tester": f"{KEY} .admin"}}
    with EmbeddedSwift(swift_options(proxy_conf=conf, token_life_s=2)) as swift:
        yield swift


def test_of_a_verbose_run_in_which_things_fail(
    commands: Commands, keyed_swift: EmbeddedSwift
) -> None:
    swift = keyed_swift
    base = "verbose"
    path = commands.scenario(crud_profile=[1, 1, 1, 1], container_base=base)
    before = logins(swift)
    who = {"ST_AUTH": swift.auth_url, "ST_USER": swift.user, "ST_KEY": KEY}
    options = ["-v", "-r", "3600", "--think-time", "0.05", "--profile"]
    started = commands.start_run("-f", path, *options, environment=who, program=True)
    with Watcher(started) as watcher:
        until("requests", lambda: len(requests(swift, base)) > 60)
        # Something goes wrong, and is told: the containers vanish under the run's feet.
        account = Account(swift, KEY)
        for name in account.objects(base)[:5]:
            account("DELETE", name)
        # Of the run, of this test's account, and for a new token.
        until("logins", lambda: logins(swift) - before >= 3)
        started.interrupt()
        ended = started.wait().fine(ExitStatus.INTERRUPTED)
    assert ended.counted()[0] > 0
    renewals = ended.stats.total().renewals  # 0 if the token ran out between two operations
    assert (f"with a new token: {renewals}\n" in ended.out) is (renewals > 0)
    assert len(watcher.public) >= 3
    none_has(watcher.public, KEY, account.token)
    none_has(watcher.inherited, KEY, "ST_KEY")
    assert len(ended.stats.run.profiles) == 3
    nowhere(commands.place, KEY, account.token)


#: Ways to log in with a secret on the command line; tests/cli/test_proctitle.py has all spellings.
SPELLINGS = {
    "-Kx": "-A {url} -U {user} -K{key}",
    "--os-password=x": "--os-auth-type v1password --os-auth-url {url} --os-username {user}"
    " --os-password={key}",
}


@pytest.mark.parametrize("words", SPELLINGS.values(), ids=SPELLINGS)
def test_of_a_key_on_the_command_line(
    commands: Commands, keyed_swift: EmbeddedSwift, words: str
) -> None:
    swift = keyed_swift
    options = words.format(url=swift.auth_url, user=swift.user, key=KEY).split()
    path = commands.scenario(operation_count=40, think_time=0.02)
    started = commands.start_run("-v", "-f", path, *options, workers=1, program=True)
    # The moment before the command comes to itself is there for all to see.
    until("masked", lambda: "****" in facts(started.pid, "cmdline"))
    with Watcher(started) as watcher:
        ended = started.wait().fine()
    assert ended.counted()[0] > 0
    assert any("run-scenario" in text and swift.auth_url in text for text in watcher.public)
    none_has(watcher.public, KEY)
    none_has(watcher.inherited, KEY)
    nowhere(commands.place, KEY)


def test_of_an_application_credential_and_a_token_that_get_nowhere(commands: Commands) -> None:
    path = commands.scenario()
    nobody = "http://127.0.0.1:9"
    for options in (
        ["--os-auth-url", f"{nobody}/v3", "--os-application-credential-id", "a",
         f"--os-application-credential-secret={KEY}"],
        ["-S", f"{nobody}/v1/AUTH_x", f"-T{KEY}"],
        ["--os-storage-url", f"{nobody}/v1/AUTH_x", "--os-auth-token", KEY],
    ):  # fmt: skip
        commands.call_run("-v", "-f", path, "--retries", "0", *options).fine(1)
    nowhere(commands.place, KEY)


def test_of_runs_that_fail_at_their_login(
    commands: Commands, embedded_swift: EmbeddedSwift
) -> None:
    path = commands.scenario()
    for url in (embedded_swift.auth_url, "http://127.0.0.1:9/auth/v1.0"):
        options = ["-A", url, "-U", "test:tester", "-K", KEY]
        commands.call_run("-v", "-f", path, *options).fine(1)
    with pytest.raises(AssertionError, match="scenario"):
        # The eyes are open: what is there is found.
        nowhere(commands.place, "crud_profile")
    nowhere(commands.place, KEY)


def test_of_usage_that_is_wrong(commands: Commands) -> None:
    for words in (
        ["run-scenario", "-f", "x", f"--os-pass={KEY}"],
        ["run-scenario", "-f", "x", "-K", KEY, KEY],
        ["run-scenario", "-f", "x", "-A", f"http://me:{KEY}@h/auth"],
        ["-K", KEY, "run-scenario"],
    ):
        commands.call(*words).fine(2)
    nowhere(commands.place, KEY)


class Unwilling(AuthV1):
    """Lets everybody log in, and then nobody do anything with objects."""

    def answer(self, request: Request) -> Answer:
        if request.path.startswith("/auth"):
            found = super().answer(request)
            token = found.headers.get("X-Auth-Token", "")
            return Answer(found.status, {**found.headers, "X-Auth-Token": f"{KEY}-{token}"})
        is_container = request.path.count("/") == 3
        return Answer(201 if request.method == "PUT" and is_container else 401)


def test_of_a_store_that_says_401_for_ever(commands: Commands) -> None:
    path = commands.scenario(operation_count=20)
    with Unwilling(key=f"{KEY}-password") as swift:
        options = ["-A", swift.auth_url, "-U", swift.user]
        ended = commands.run(
            "-v",
            "-f",
            path,
            "--retries",
            "1",
            *options,
            environment={"ST_KEY": swift.key},
            workers=1,
        ).fine(1)
        assert swift.logins > 1
    assert "401" in ended.err + ended.out
    nowhere(commands.place, KEY)


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Store]]:
    with http_stores(KEY, "basic") as stores:
        yield stores


def credential_in(said: Response) -> str:
    """The value of the header that gives the request access."""
    found = re.search(r"(?im)^(?:x-auth-token|authorization): *(.*?)\r?$", said.asked)
    assert found
    return found[1]


def with_id(said: Response) -> Response:
    """The response with the credential as its transaction id."""
    return said._replace(headers={**said.headers, "X-Trans-Id": credential_in(said)})


@pytest.mark.parametrize("name", ["swift", "s3", "webdav"])
def test_of_a_store_that_repeats_requests_in_its_errors(
    commands: Commands, servers: dict[str, Store], name: str
) -> None:
    store = servers[name]

    def echo(said: Response) -> Response:
        return with_id(Response(403, {}, credential_in(said).encode(), said.asked))

    def redirect(said: Response) -> Response:
        location = f"http://127.0.0.1:9/{credential_in(said)}/x"
        return Response(302, {"Location": location}, b"", said.asked, credential_in(said))

    lies = {"echo": Lie(echo), "redirect": Lie(redirect), "id": Lie(with_id), "well": None}
    with store.broken(lies) as proxy:
        live = ["--live-json", commands.place / "live.json", "--html", commands.place / "run.html"]
        words = ["-v", "--retries", 0, "-o", 40, *live]
        started = store.run(commands, proxy.port, *words, program=True)
        with Watcher(started) as watcher:
            ended = started.wait().fine()
        failed = sum(error.count for error in ended.stats.errors.values())
        assert proxy.struck["echo"] + proxy.struck["redirect"] == failed > 1
        assert proxy.struck["id"] > 0
    for form in ("--json", "--csv", "--markdown"):
        commands.call("report-scenario", "-s", ended.results, form).fine()
    rows = commands.place / "operations.csv"  # the stat file has ids in a form of its own
    commands.call("report-scenario", "-s", ended.results, "--operations", rows).fine()
    assert ("***" in rows.read_text()) is (name != "s3")  # which is sent signatures only
    none_has(watcher.public, *store.secrets)
    none_has(watcher.inherited, *store.secrets, *store.environment)
    nowhere(commands.place, *store.secrets)


class Mirror(LoopbackServer):
    """Answers with what it was sent, in each place that has a text: also as names of listings."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status

    def answer(self, request: Request) -> Answer:
        headers = {name.lower(): text for name, text in request.headers.items()}
        names = ("x-auth-token", "x-amz-security-token", "authorization")
        text = next(filter(None, map(headers.get, names)), "").removeprefix("Basic ")
        if request.path == "/info":  # which is asked for without a token
            policies = [{"name": f"p {KEY}", "default": True, "aliases": KEY}]
            return Answer.of(200, {"swift": {"policies": policies, "version": KEY, KEY: KEY}})
        if not text:
            return Answer(401, {"WWW-Authenticate": 'Basic realm="x"'})
        is_s3 = "x-amz-date" in headers
        headers = {
            "X-Trans-Id": text, "ETag": text, "Location": f"http://127.0.0.1:9/{text}",
            "X-Container-Meta-Ssbench": text, "x-amz-bucket-region": text, "DAV": "1",
            "X-Storage-Policy": text, "Allow": f"{text}, GET", "Server": text, "Retry-After": text,
            "X-Versions-Location": text, "X-Account-Storage-Policy-Default": text,
        }  # fmt: skip
        name = f"ssbench_{text}"
        if request.method == "PROPFIND" and self.status == 200:
            body = f"""<d:multistatus xmlns:d="DAV:"><d:response><d:href>/dav/{name}/</d:href>
                <d:propstat><d:prop><d:resourcetype><d:collection/></d:resourcetype></d:prop>
                <d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response></d:multistatus>"""
            return Answer(207, headers, body.encode())
        if not is_s3:
            listing = [{"name": name, "count": 1, "bytes": 1, "hash": text, "content_type": text}]
            is_first = not re.search("[?&]marker=[^&]", request.path)
            return Answer.of(self.status, listing if is_first else [], **headers)
        body = f"""<ListAllMyBucketsResult><Buckets><Bucket><Name>{name}</Name></Bucket></Buckets>
            <Contents><Key>{name}</Key><Size>1</Size></Contents></ListAllMyBucketsResult>"""
        if self.status != 200:
            body = f"<Error><Code>{text}</Code><Message>{text}</Message></Error>"
        return Answer(self.status, headers, body.encode())


@pytest.mark.parametrize("status", [200, 302, 403])
@pytest.mark.parametrize("name", ["swift", "s3", "webdav"])
def test_of_a_store_that_repeats_requests_to_any_command(
    commands: Commands, name: str, status: int
) -> None:
    with Mirror(status) as mirror:
        options = {
            "swift": ["-S", f"{mirror.url}/v1/AUTH_x"],
            "s3": ["--storage", "s3", "--s3-endpoint", mirror.url],
            "webdav": ["--storage", "webdav", "--url", f"{mirror.url}/dav"],
        }[name]
        who = {
            "OS_AUTH_TOKEN": KEY, "AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "k",
            "AWS_SESSION_TOKEN": KEY, "WEBDAV_USER": "u", "WEBDAV_PASSWORD": KEY,
        }  # fmt: skip
        told = ""
        policy = ["-p", "gold"] if name == "swift" else []
        for words in (
            [
                "run-scenario",
                "-v",
                "-f",
                commands.scenario(),
                "--retries",
                0,
                "-s",
                commands.place / "x.stat.gz",
            ],
            ["cleanup-containers", "--dry-run"],
            ["make-scenario", "--from-container", "c", "--output", commands.place / "new"],
            ["doctor", "-f", commands.scenario(), *policy],
            ["bench", "put", "ssbench_000000", "-s", commands.place / "y.stat.gz", *policy],
            ["cleanup-containers", "--dry-run", *policy],
            ["download", "--container", "c", "-s", commands.place / "z.stat.gz"],
        ):
            ended = commands.call(*words, *options, environment=who)
            told += ended.out + ended.err
        assert mirror.seen
    assert "***" in told or name == "webdav"  # whose login shows nothing of a response
    nowhere(commands.place, KEY, b64encode(f"u:{KEY}".encode()).decode())


def test_of_a_throw_away_swift(commands: Commands) -> None:
    path = commands.scenario(operation_count=20, crud_profile=[1, 1, 1, 1])
    who = {"ST_KEY": KEY, "OS_PASSWORD": KEY}
    options = ["-v", "--embedded-swift", "--profile"]
    started = commands.start_run("-f", path, *options, environment=who, workers=1, program=True)
    with Watcher(started) as watcher:
        started.wait().fine()
    none_has(watcher.public, KEY)
    none_has(watcher.inherited, KEY)
    nowhere(commands.place, KEY)


def test_of_the_key_between_master_and_workers(commands: Commands) -> None:
    key_file = commands.place / "wire.key"
    commands.call("make-key", key_file).fine()
    words = key_file.read_text().split()[1:]
    assert len(words) == 4
    keyed = ["--zmq-key-file", key_file]
    ports = free_ports()
    path = commands.scenario(operation_count=200)
    variable = {"SSBENCH_KEY_FILE": str(key_file)}
    worker = commands.worker("-v", "-p", 20, *ports, "far", environment=variable)
    started = commands.start_run(
        "-v", "-f", path, "--noop", "--profile", "--expect-workers", 2, *keyed,
        workers=1, ports=ports, program=True,
    )  # fmt: skip
    with Watcher(started) as watcher:
        ended = started.wait().fine()
    until("profile", lambda: "Profile of the worker" in worker.talk())
    commands.master("kill-workers", *ports, "-v", environment=variable).wait().fine()
    assert worker.wait().status == 0
    none_has(watcher.public, *words)
    none_has(watcher.inherited, *words)
    assert len(list(commands.place.rglob("*.stacks"))) == 1, "of the far worker alone"
    assert len(ended.stats.run.profiles) >= 2
    nowhere(commands.place, *words)
