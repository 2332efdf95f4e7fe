"""What tests need that pip doesn't install: programs of real servers, and IPv6.

A test that needs one carries ``@pytest.mark.program(NAME)``. Where ``SSBENCH_ALL_SERVERS`` is set,
as .ci/run does, the test runs, and fails without the program. Elsewhere it is left out, and a line
at the end says so (tests/conftest.py).
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
from functools import cache
from pathlib import Path

#: Program -> how to install it.
PROGRAMS = {
    "versitygw": "make servers",
    "rclone": "make servers-all",
    "weed": "make servers-all",
    "apache2": "apt-get install apache2-bin",
    "nginx-dav-ext": "apt-get install nginx libnginx-mod-http-dav-ext",
    "cadaver": "apt-get install cadaver",
    "chromium": "apt-get install chromium",
    "chromedriver": "apt-get install chromium-driver",
    "prometheus": "apt-get install prometheus",
    "promtool": "apt-get install prometheus",
    "influxd": "apt-get install influxdb",
    "man": "apt-get install man-db",
    "sshd": "apt-get install openssh-server",
    "systemd-analyze": "apt-get install systemd",
    "slurmctld": "apt-get install slurmctld slurmd slurm-client munge",
    "debootstrap": "apt-get install debootstrap",
    "ipv6": "sysctl net.ipv6.conf.lo.disable_ipv6=0",
}
#: These take too long to compile for .ci/run: their tests are left out wherever they are missing.
_OPTIONAL = ("rclone", "weed")
#: What is not a program of its own: name -> where Debian has it.
_FILES = {"nginx-dav-ext": "/usr/lib/nginx/modules/ngx_http_dav_ext_module.so"}
ALL_NEEDED = bool(os.environ.get("SSBENCH_ALL_SERVERS"))


def find(name: str) -> str | None:
    """The path of a program: in this environment, in PATH, or where Debian has servers."""
    if name == "ipv6":
        return "::1" if has_ipv6() else None
    if name in _FILES:
        return _FILES[name] if Path(_FILES[name]).exists() else None
    places = [str(Path(sys.executable).parent), os.environ.get("PATH", ""), "/usr/sbin"]
    return shutil.which(name, path=os.pathsep.join(places))


@cache
def has_ipv6() -> bool:
    """Whether a program can listen at ::1."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def path_of(name: str) -> str:
    """The same of one that must be there.

    :raises AssertionError: it is missing.
    """
    found = find(name)
    assert found, f"{name} is missing: {PROGRAMS[name]}"
    return found


def left_out() -> list[str]:
    """The programs whose tests don't run here."""
    return [name for name in (_OPTIONAL if ALL_NEEDED else PROGRAMS) if not find(name)]
