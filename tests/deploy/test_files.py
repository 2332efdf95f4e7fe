"""The files of deploy/: their own tools accept them, and their commands are ssbench's."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ssbench.cli.commands import master_parser
from ssbench.cli.worker_options import worker_parser

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
KUBERNETES = [
    manifest
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    for manifest in yaml.safe_load_all(path.read_text())
]
PORTS = [13579, 13580, 13581]


def commands_in(text: str) -> list[list[str]]:
    """The commands of ssbench in a script, with variables as words, and 1 for what is computed."""
    lines = re.sub(r"\$\(\(.*?\)\)", "1", text.replace("\\\n", " ")).splitlines()
    found = []
    for line in lines:
        at = re.search(r"(?:/opt/ssbench/bin/)?ssbench-(?:master|worker) ", line.partition("# ")[0])
        if at:
            command = re.split(r" &$| \|\| ", line[at.start() :].strip())[0]
            found.append(shlex.split(command))
    return found


def parse(words: list[str]) -> Any:
    """The options of a command."""
    plain = [word.replace("$processes", "1") for word in words[1:]]
    if "worker" in words[0]:
        return worker_parser().parse_args([word for word in plain if word != "$SSBENCH_OPTIONS"])
    if "run-scenario" in plain and "-f" not in plain:
        plain += ["-f", "small"]
    return master_parser(plain).parse_args([word for word in plain if word != "$@"])


def job(name: str) -> Any:
    (found,) = [
        each for each in KUBERNETES if (each["kind"], each["metadata"]["name"]) == ("Job", name)
    ]
    return found


def container(name: str) -> Any:
    (found,) = job(name)["spec"]["template"]["spec"]["containers"]
    return found


# Docker ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("release", "base", "is_built"), [
    ("", "debian:12-slim", True), ("yes", "debian:12-slim", False),
    ("yes", f"debian@sha256:{'0' * 64}", True),
])  # fmt: skip
def test_a_released_image_has_a_base_with_a_digest(
    release: str, base: str, *, is_built: bool
) -> None:
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${BASE}"] * 2
    (check,) = re.findall(r"^RUN (case .*)$", text, re.MULTILINE)
    environment = {"RELEASE": release, "BASE": base}
    said = subprocess.run(["sh", "-c", check], env=environment, capture_output=True, text=True)
    assert (said.returncode == 0) is is_built
    assert ("has no digest" in said.stderr) is not is_built


# systemd -------------------------------------------------------------------------------------


@pytest.mark.program("systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "ssbench-worker.service"
    worker = Path(sys.executable).parent / "ssbench-worker"
    text = (DEPLOY / "systemd" / unit.name).read_text()
    unit.write_text(text.replace("/opt/ssbench/bin/ssbench-worker", str(worker)))
    verify = ["systemd-analyze", "verify", "--man=no", unit]
    said = subprocess.run(verify, capture_output=True, text=True, timeout=120)
    # It may complain of this host's own units.
    told = [line for line in (said.stdout + said.stderr).splitlines() if unit.name in line]
    assert (said.returncode, told) == (0, [])


def test_the_unit_starts_workers_with_the_options_of_its_file() -> None:
    (words,) = commands_in((DEPLOY / "systemd" / "ssbench-worker.service").read_text())
    environment = (DEPLOY / "systemd" / "worker.env").read_text()
    options = re.search(r"^SSBENCH_OPTIONS=(.*)$", environment, re.MULTILINE)
    assert options
    found = parse([*words, *options[1].split()])
    assert (found.address, found.concurrency) == ("${SSBENCH_MASTER}", 1000)
    assert found.processes


# Kubernetes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "manifest",
    KUBERNETES,
    ids=[f"{each['kind']}-{each['metadata']['name']}" for each in KUBERNETES],
)
def test_kubernetes_accepts_the_manifest(manifest: Any) -> None:
    import kubernetes_validate  # loads slowly

    kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)


def test_the_master_waits_for_all_workers_of_the_pods() -> None:
    workers, worker = job("ssbench-workers")["spec"], container("ssbench-workers")
    assert (workers["completionMode"], workers["completions"]) == (
        "Indexed",
        workers["parallelism"],
    )
    (words,) = commands_in(container("ssbench-master")["command"][-1])
    per_pod = int(worker["resources"]["limits"]["cpu"])
    assert parse(words).expect_workers == workers["completions"] * per_pod
    (words,) = commands_in(worker["command"][-1])
    found = parse(words)
    assert found.exit_with_master
    (service,) = [each for each in KUBERNETES if each["kind"] == "Service"]
    assert found.address == service["metadata"]["name"]
    assert [port["port"] for port in service["spec"]["ports"]] == PORTS
    assert [found.work_port, found.results_port, found.control_port] == PORTS
    labels = job("ssbench-master")["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == labels


@pytest.mark.parametrize("name", ["ssbench-master", "ssbench-workers"])
def test_pods_run_without_rights(name: str) -> None:
    pod, own = job(name)["spec"]["template"]["spec"], container(name)["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert not pod["automountServiceAccountToken"]
    assert own["readOnlyRootFilesystem"]
    assert not own["allowPrivilegeEscalation"]
    assert own["capabilities"] == {"drop": ["ALL"]}
    mounts = {mount["name"] for mount in container(name)["volumeMounts"]}
    assert mounts == {volume["name"] for volume in pod["volumes"]}
    assert pod["securityContext"]["runAsUser"] == 10001, "the user of the image"
    assert "--uid 10001 " in (DEPLOY / "docker" / "Dockerfile").read_text()


def test_only_workers_may_connect_and_only_to_the_ports_of_the_master() -> None:
    labels = {
        name: job(name)["spec"]["template"]["metadata"]["labels"]
        for name in ("ssbench-master", "ssbench-workers")
    }
    policies = {
        each["metadata"]["name"]: each["spec"]
        for each in KUBERNETES
        if each["kind"] == "NetworkPolicy"
    }
    chosen = {name: spec["podSelector"]["matchLabels"] for name, spec in policies.items()}
    assert chosen == labels, "each pod has one"
    assert all("Ingress" in spec["policyTypes"] for spec in policies.values())
    assert not policies["ssbench-workers"].get("ingress"), "workers do not listen"
    (rule,) = policies["ssbench-master"]["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": labels["ssbench-workers"]}}]
    assert [port["port"] for port in rule["ports"]] == PORTS


# Ansible, Slurm ------------------------------------------------------------------------------


def test_ansible_accepts_the_playbook(tmp_path: Path) -> None:
    program = Path(sys.executable).parent / "ansible-playbook"
    check = [program, "-i", "hosts.ini", "--syntax-check", "site.yml"]
    said = subprocess.run(
        check, cwd=DEPLOY / "ansible", capture_output=True, text=True, timeout=120,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8",
             "ANSIBLE_LOCAL_TEMP": str(tmp_path)},
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    assert "playbook: site.yml" in said.stdout


def test_ansible_installs_the_unit_that_is_here() -> None:
    role = DEPLOY / "ansible" / "roles" / "ssbench_worker"
    tasks = (role / "tasks" / "main.yml").read_text()
    (source,) = re.findall(r'src: "\{\{ role_path \}\}/(.*)"', tasks)
    assert (role / source).resolve() == DEPLOY / "systemd" / "ssbench-worker.service"
    template = (role / "templates" / "worker.env.j2").read_text()
    names = re.findall(r"^(\w+)=", template, re.MULTILINE)
    environment = (DEPLOY / "systemd" / "worker.env").read_text()
    assert names == re.findall(r"^(\w+)=", environment, re.MULTILINE)


def test_the_batch_script_of_slurm_has_commands_of_ssbench() -> None:
    script = DEPLOY / "slurm" / "ssbench.sbatch"
    subprocess.run(["bash", "-n", script], check=True)
    make_key, worker, run = commands_in(script.read_text())
    assert parse(make_key).new_key_file == "$key"
    assert parse(worker).exit_with_master
    assert parse(run).expect_workers == 1
