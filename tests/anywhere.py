"""``make test-anywhere``: all tests, once under each of several variations of the machine.

    python -m tests.anywhere [--commit HASH] [VARIATION ...] [-- ARGUMENTS OF PYTEST]

What a test expects must not depend on any of these. Several at once are joined by "+". A variation
that can't be had here is named in the table at the end, and is no failure.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory

from tests.servers.programs import PROGRAMS, has_ipv6

ROOT = Path(__file__).resolve().parent.parent
VENV = Path(sys.prefix)
#: As ``make test`` has them.
PYTEST = ["-m", "pytest", "-m", "not slow"]
DIVIDED = ["--dist", "loadfile", "--no-loadscope-reorder", "-n"]
#: Settings that people have, and that no test may see.
SETTINGS = {
    "HOME": "/nonexistent", "XDG_CONFIG_HOME": "/nonexistent", "XDG_CACHE_HOME": "/nonexistent",
    "ST_AUTH": "http://192.0.2.1/auth", "ST_USER": "u", "ST_KEY": "k", "OS_CLOUD": "none",
    "OS_AUTH_URL": "http://192.0.2.1:5000/v3", "AWS_PROFILE": "none", "AWS_REGION": "none",
    "AWS_ENDPOINT_URL": "http://192.0.2.1", "SSBENCH_WORKERS": "7", "SSBENCH_STORAGE": "s3",
    "SSBENCH_CONFIG": "/nonexistent", "http_proxy": "http://192.0.2.1:1", "no_proxy": "",
    "HTTPS_PROXY": "http://192.0.2.1:1", "ALL_PROXY": "http://192.0.2.1:1", "NO_COLOR": "1",
    "FORCE_COLOR": "1", "TERM": "dumb", "CI": "true", "PYTHONWARNINGS": "error",
    "PYTHONHASHSEED": "7", "PYTHONUNBUFFERED": "1", "REQUESTS_CA_BUNDLE": "/nonexistent",
    "SSL_CERT_FILE": "/nonexistent", "MANWIDTH": "60", "PAGER": "false", "LANGUAGE": "de",
}  # fmt: skip
#: Programs that tests look for: those that aren't here stay away.
LOOKED_FOR = {*PROGRAMS, "nginx", "wrk", "fio", "go", "atheris"}
#: 50 ms to 2 s of work, then as long a rest at most; ends with the process that started it.
BURN = """if True:
    import os, random, sys, time
    while os.getppid() == int(sys.argv[1]):
        until = time.monotonic() + random.uniform(0.05, 2)
        while time.monotonic() < until:
            pass
        time.sleep(random.uniform(0, 2))
"""


class NotHereError(Exception):
    """A variation that this machine can't provide; says why."""


@dataclass
class Conditions:
    """How pytest is started."""

    environment: dict[str, str] = field(default_factory=dict)
    path: list[str] = field(default_factory=list)  # at the end of PATH
    prefix: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)
    python: str | None = None  # the one that runs this
    processes: int | None = None
    umask: int | None = None

    def __or__(self, other: Conditions) -> Conditions:
        return Conditions(
            self.environment | other.environment,
            self.path + other.path,
            self.prefix + other.prefix,
            self.options + other.options,
            self.python or other.python,
            self.processes or other.processes,
            other.umask if self.umask is None else self.umask,
        )


Variation = Callable[[], AbstractContextManager[Conditions]]


def fixed(**changes: object) -> Variation:
    return lambda: nullcontext(Conditions(**changes))  # type: ignore[arg-type]


@contextmanager
def busy() -> Iterator[Conditions]:
    command = [sys.executable, "-c", BURN, str(os.getpid())]
    burners = [subprocess.Popen(command) for _ in range(2)]
    try:
        yield Conditions()
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


@contextmanager
def shuffled() -> Iterator[Conditions]:
    seed = secrets.randbelow(2**32)
    print(f"to repeat this order: -p randomly --randomly-seed={seed}", flush=True)
    yield Conditions(options=["-p", "randomly", "--randomly-seed", str(seed)])


@contextmanager
def other_environment() -> Iterator[Conditions]:
    """All that a user's environment can differ in at once: a failure names what it saw of it.

    The locale is German in ISO 8859-1: another encoding, comma for point, other names of months.
    PATH has a program for each word of the documents, but those that are there or that tests look
    for.
    """
    name = "de_DE.ISO-8859-1"
    pages = [*ROOT.glob("*.rst"), *ROOT.glob("docs/**/*.rst")]
    words = {word for page in pages for word in re.findall(r"\w[\w.+-]*", page.read_text("utf-8"))}
    with TemporaryDirectory() as locales, TemporaryDirectory() as programs:
        _must_run(["localedef", "-i", "de_DE", "-f", "ISO-8859-1", f"{locales}/{name}"])
        for word in words - LOOKED_FOR:
            if not shutil.which(word):
                (Path(programs) / word[:200]).symlink_to("/bin/false")
        variables = {
            **SETTINGS, "TZ": "America/St_Johns", "LOCPATH": locales, "LC_ALL": name, "LANG": name,
            "COLUMNS": "60", "LINES": "10",
        }  # fmt: skip
        yield Conditions(variables, [programs], umask=0o077)


@contextmanager
def without_ipv6() -> Iterator[Conditions]:
    """In a network of its own, whose loopback interface has no ::1."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
    script = 'ip link set lo up && ip address del ::1/128 dev lo && exec "$@"'
    prefix = ["unshare", *user, "--net", "sh", "-ec", script, "sh"]
    if has_ipv6():
        _must_run([*prefix, "true"])
    yield Conditions(prefix=prefix if has_ipv6() else [])


@contextmanager
def not_root() -> Iterator[Conditions]:
    """In a user namespace, where root's files are this user's: also those below /root."""
    if os.geteuid():
        yield Conditions()
        return
    with NamedTemporaryFile("w") as passwd:  # with a user who may log in, which Debian has none of
        others = [line for line in Path("/etc/passwd").read_text().splitlines() if line]
        passwd.write("\n".join(["tester:x:1000:1000::/tmp:/bin/sh", *others, ""]))
        passwd.flush()
        os.chmod(passwd.name, 0o644)
        script = 'mount --bind "$0" /etc/passwd && exec "$@"'
        user = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
        prefix = ["unshare", "--mount", "sh", "-ec", script, passwd.name, *user]
        _must_run([*prefix, "true"])
        yield Conditions(prefix=prefix)


@contextmanager
def python(version: str) -> Iterator[Conditions]:
    """Of another environment below this one, which is made with the first run."""
    place = VENV / f"python{version}"
    make = ["make", f"VENV={place}", f"PYTHON={_interpreter(version)}", f"{place}/.for-test"]
    if subprocess.run(make, cwd=ROOT).returncode:
        raise NotHereError(f"its environment could not be installed: {place}")
    # The servers that `make servers` installs are beside this Python.
    yield Conditions(path=[str(VENV / "bin")], python=str(place / "bin" / "python"))


VARIATIONS: dict[str, Variation] = {
    "alone": fixed(),
    "busy": busy,  # beside two processes that burn cores in bursts
    "two": fixed(processes=2),
    "sixteen": fixed(processes=16),
    "random": shuffled,
    "environment": other_environment,  # variables, time zone, locale, umask, screen, PATH
    "no-ipv6": without_ipv6,
    "user": not_root,
    **{
        f"python3.{minor}": partial(python, f"3.{minor}")
        for minor in (10, 11, 12, 13)
        if minor != sys.version_info[1]
    },
}


def _must_run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True)
    except OSError as error:
        raise NotHereError(f"{command[0]}: {error.strerror}") from error
    except subprocess.CalledProcessError as error:
        raise NotHereError(f"{command[0]}: {error.stderr.decode().strip()}") from error


def _interpreter(version: str) -> str:
    """On PATH, or one that pyenv has installed."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    installed = sorted(root.glob(f"versions/{version}.*/bin/python{version}"))
    for path in (shutil.which(f"python{version}"), *installed):
        if (
            path
            and not subprocess.run([path, "-c", "import ensurepip"], capture_output=True).returncode
        ):
            return str(path)
    raise NotHereError(f"no Python {version} with ensurepip on PATH or in {root}")


def run(name: str, arguments: list[str]) -> tuple[int, str]:
    """Run the tests under a variation, or several. Returns the exit status and pytest's last line.

    :raises NotHereError: this machine can't provide one of them.
    """
    print(f"\n===== {name} =====", flush=True)
    chosen = sorted(name.split("+"), key=[*VARIATIONS].index)
    with ExitStack() as stack:
        how = Conditions()
        for one in chosen:
            how |= stack.enter_context(VARIATIONS[one]())
        python = how.python or sys.executable
        command = [*how.prefix, python, *PYTEST, *DIVIDED, str(how.processes or 8), *how.options]
        environment = {**os.environ, **how.environment}
        environment["PATH"] = os.pathsep.join([os.environ["PATH"], *how.path])
        if "no-ipv6" in chosen:  # the tests that need it are left out
            environment.pop("SSBENCH_ALL_SERVERS", None)
        closing = "no closing line"
        with subprocess.Popen(
            [*command, *arguments], cwd=ROOT, env=environment,
            umask=0o022 if how.umask is None else how.umask,
            stdout=subprocess.PIPE, text=True, encoding="utf-8", errors="replace",
        ) as process:  # fmt: skip
            assert process.stdout
            for line in process.stdout:
                print(line, end="", flush=True)
                if re.search(r"\d+ (passed|failed|errors?|deselected)\b.* in [\d.]+s", line):
                    closing = line.strip("= \n")
        return process.returncode, closing


def order_of(commit: str) -> list[str]:
    """The variations that .ci/run has time for, the one that this commit chooses first.

    Tests spend most of their time waiting: two at a time take several times as long.
    """
    names = [name for name in VARIATIONS if name not in ("alone", "two")]
    at = int(commit[:8], 16) % len(names)
    return names[at:] + names[:at]


def half_of(commit: str) -> list[str]:
    """The test files that .ci/run has time for under its variation: one half or the other.

    Without those of faults, which take longest; all run in ``make test`` anyway.
    """
    files = sorted(
        str(path.relative_to(ROOT))
        for path in ROOT.glob("tests/**/test_*.py")
        if "faults" not in path.parts
    )
    return files[int(commit[8:16] or "0", 16) % 2 :: 2]


def main() -> int:
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(prog="python -m tests.anywhere", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="VARIATION", help=f"of {' '.join(VARIATIONS)}")
    parser.add_argument(
        "--commit", metavar="HASH", help="one, and half of the test files, which this hash chooses"
    )
    given = parser.parse_args(words[:at])
    joined = [name for names in given.names for name in names.split("+")]
    unknown = [name for name in joined if name not in VARIATIONS]
    if unknown:
        parser.error(f"no such variation: {unknown[0]} (one of {', '.join(VARIATIONS)})")
    names, arguments = given.names or [*VARIATIONS], words[at + 1 :]
    if given.commit:
        names, arguments = order_of(given.commit), [*arguments, *half_of(given.commit)]
    lines, failed = [], False
    for name in names:
        try:
            status, closing = run(name, arguments)
        except NotHereError as error:
            lines.append(f"not run  {name:11}  {error}")
            continue
        failed |= status != 0
        lines.append(f"{'FAILED' if status else 'ok':7}  {name:11}  {closing}")
        if given.commit:
            break
    print("", *lines, sep="\n", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
