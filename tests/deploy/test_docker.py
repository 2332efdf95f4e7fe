"""The steps of deploy/docker/Dockerfile, run on a root of debootstrap: there is no Docker here."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.environment import GIVEN
from tests.servers.programs import path_of

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "deploy" / "docker" / "Dockerfile"
KNOWN = ("ARG", "CMD", "COPY", "ENV", "FROM", "LABEL", "RUN", "USER", "WORKDIR")
LONGEST_S = 900


def steps() -> list[tuple[str, str]]:
    """Instructions and their texts."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    found = [line.split(None, 1) for line in text.splitlines() if line.strip()]
    return [(name, rest) for name, rest in found]


class Image:
    """A root and the settings of a stage."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.user = "0"
        self.folder = "/"
        self.environment = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"
        }  # fmt: skip

    def run(self, command: str) -> str:
        """Run in the root with its user and settings; what it printed."""
        own = {name: GIVEN[name] for name in OURS if name in GIVEN}
        if (self.root / AUTHORITIES).exists():
            own["PIP_CERT"] = f"/{AUTHORITIES}"
        words = ["env", "-i", *(f"{k}={v}" for k, v in {**own, **self.environment}.items())]
        script = 'mount --rbind /proc "$0/proc" && exec chroot "--userspec=$1:$1" "$0" "${@:2}"'
        said = subprocess.run(
            ["unshare", "--mount", "bash", "-c", script, self.root, self.user, *words, "sh", "-ec",
             f"cd {self.folder}; {command}"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LONGEST_S,
        )  # fmt: skip
        assert said.returncode == 0, f"{command}\n{said.stdout[-4000:]}"
        return said.stdout


#: How this host reaches its package index.
OURS = ("PIP_INDEX_URL", "PIP_DEFAULT_TIMEOUT", "http_proxy", "https_proxy", "no_proxy")
AUTHORITIES = "pip-authorities.crt"  #: in a root: those that pip trusts here, if it is told


def copy_context(target: Path) -> None:
    """COPY . of what Dockerfile.dockerignore leaves."""
    lines = (DOCKERFILE.parent / "Dockerfile.dockerignore").read_text().splitlines()
    assert "*" in lines
    target.mkdir()
    for name in (line[1:] for line in lines if line.startswith("!")):
        (target / name).parent.mkdir(exist_ok=True)
        if (ROOT / name).is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, target / name, ignore=ignore)
        else:
            shutil.copy(ROOT / name, target / name)


@pytest.mark.program("debootstrap")
@pytest.mark.skipif(os.geteuid() != 0, reason="debootstrap and chroot need root")
@pytest.mark.slow
@pytest.mark.timeout(2 * LONGEST_S)
def test_the_image_is_built_and_runs_a_scenario_without_root(tmp_path: Path) -> None:
    base = tmp_path / "base"
    suite = {"debian:12-slim": "bookworm"}
    subprocess.run(
        [path_of("debootstrap"), "--variant=minbase", "bookworm", base], check=True,
        stdout=subprocess.DEVNULL, timeout=LONGEST_S,
    )  # fmt: skip
    shutil.copy("/etc/resolv.conf", base / "etc" / "resolv.conf")
    if GIVEN.get("PIP_CERT"):
        shutil.copy(GIVEN["PIP_CERT"], base / AUTHORITIES)
    stages: dict[str, Image] = {}
    image = Image(base)
    command: list[str] = []
    arguments: dict[str, str] = {}
    for name, text in steps():
        if name == "FROM":
            words = text.replace("${BASE}", arguments["BASE"]).split()
            assert words[0] in suite
            stage = words[2] if words[1:2] == ["AS"] else str(len(stages))
            image = stages[stage] = Image(tmp_path / stage)
            subprocess.run(["cp", "-a", base, image.root], check=True)
        elif name == "ARG":
            for word in text.split():
                key, _, value = word.partition("=")
                image.environment[key] = arguments.setdefault(key, value)
        elif name == "RUN":
            image.run(text)
        elif name == "COPY":
            *sources, target = text.split()
            if sources == ["."]:
                copy_context(image.root / target[1:])
            else:
                option, source = sources
                origin = stages[option.removeprefix("--from=")].root / source[1:]
                subprocess.run(["cp", "-a", origin, image.root / target[1:]], check=True)
        elif name == "ENV":
            key, _, value = text.partition("=")
            image.environment[key] = value
        elif name == "USER":
            image.user = text
        elif name == "WORKDIR":
            image.folder = text
        elif name == "CMD":
            command = json.loads(text)
    assert image.user == "10001"
    image.environment["HOME"] = "/results"
    assert "usage: ssbench-worker" in image.run(" ".join(command))
    said = image.run(
        "test $(id -u) = 10001; ssbench-master make-key key; ssbench-master run-scenario -f"
        " very_small --noop --workers 1 -u 4 -o 200 --progress none -s x.stat.gz --html x.html"
        " --zmq-work-port 21571 --zmq-results-port 21572 --zmq-control-port 21573; ls -l x.html"
    )
    assert "Count:   200" in said


def test_the_dockerfile_ends_without_root_and_sends_only_the_package() -> None:
    assert {name for name, _ in steps()} <= set(KNOWN)
    users = [text for name, text in steps() if name == "USER"]
    assert users == ["10001"]
    patterns = (DOCKERFILE.parent / "Dockerfile.dockerignore").read_text().splitlines()
    sent = [line[1:] for line in patterns if line.startswith("!")]
    for name in sent:
        assert (ROOT / name).exists(), name
    for parts in re.findall(r'HERE((?: / "[^"]+")+)', (ROOT / "setup.py").read_text()):
        needed = "/".join(re.findall(r'"([^"]+)"', parts))
        assert needed.startswith(("build/", *sent)), f"setup.py needs {needed}"
    assert not any(fnmatch.fnmatch("ssbench.key", line[1:]) for line in patterns if line[:1] == "!")
