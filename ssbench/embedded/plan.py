"""What parent and child share: the plan, which the parent passes as one line of JSON, Swift's
configuration files, and the directory, with the removal of those that killed processes left.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ssbench.core.errors import SsbenchError
from ssbench.core.hiding import Hiding

ROLES = ("account", "container", "object", "proxy")

#: The tempauth users of every embedded Swift: (account, user, key, groups).
USERS = (
    ("admin", "admin", "admin", ".admin .reseller_admin"),
    ("test", "tester", "testing", ".admin"),
    ("test", "tester3", "testing3", ""),
)

#: Storage policies by index; the first is the default.
POLICIES = ("gold", "silver")

#: Section -> option -> value, of a configuration file.
Sections = Mapping[str, Mapping[str, str]]

WORKDIR_PREFIX = "ssbench-swift-"

#: /var/tmp too: on many systems /tmp is a small tmpfs.
WORKDIR_PLACES = ("/tmp", "/var/tmp")  # nosec B108 # mkdtemp makes a private folder there


class SwiftOptions(Hiding, frozen=True):
    """The choices that a user of an embedded Swift has."""

    HIDDEN = ("proxy_conf",)

    host: str = "127.0.0.1"  #: or "::1"
    port: int = 0  #: of the proxy; 0: any free port
    token_life_s: int = 86400
    in_memory: bool = False  #: keep objects in the server's memory instead of files
    tls_cert: str | Path = ""  #: PEM file; with it the proxy serves https
    tls_key: str | Path = ""  #: PEM file
    directory: str | None = None  #: parent of the data directory; None: see make_workdir
    log_path: str | Path | None = None  #: access log; None: in the data directory
    #: Added to proxy-server.conf, or replacing what is there.
    proxy_conf: Sections = {}


class Plan(Hiding, frozen=True):
    """One embedded Swift. ``fernet_key`` signs its tokens; the repr omits it."""

    HIDDEN = ("fernet_key",)

    options: SwiftOptions  #: with absolute paths
    top: str  #: the directory of all its files, devices included
    ports: Mapping[str, int]  #: by role
    access_log: str
    fernet_key: str

    def to_json(self) -> str:
        """One line, secrets included: for the child's stdin only."""
        return msgspec.json.encode(self, enc_hook=str).decode()

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The inverse of ``to_json``; paths become str."""
        values = json.loads(text)
        return cls(**{**values, "options": SwiftOptions(**values["options"])})

    @property
    def node_dir(self) -> str:
        """The directory of the devices; there is one, d1."""
        return f"{self.top}/node"


def conf_files(plan: Plan) -> dict[str, str]:
    """File name -> text, of all files that Swift reads except the rings."""
    files = {"swift.conf": render(swift_conf())}
    for role in ROLES[:-1]:
        files[f"{role}-server.conf"] = render(backend_conf(plan, role))
    files["proxy-server.conf"] = render(overlaid(proxy_conf(plan), plan.options.proxy_conf))
    return files


def render(sections: Sections) -> str:
    """The text of a paste config."""
    blocks = [
        "\n".join([f"[{name}]", *(f"{option} = {value}" for option, value in options.items())])
        for name, options in sections.items()
    ]
    return "\n\n".join(blocks) + "\n"


def overlaid(base: Sections, changes: Sections) -> Sections:
    """``base`` with the options of ``changes`` added or replaced, section by section."""
    names = [*base, *(name for name in changes if name not in base)]
    return {name: {**base.get(name, {}), **changes.get(name, {})} for name in names}


def swift_conf() -> Sections:
    # Prefix and suffix protect against clients that choose names with equal hashes. This store
    # has one user, so they can be fixed.
    sections: dict[str, dict[str, str]] = {
        "swift-hash": {
            "swift_hash_path_prefix": "ssbench",
            "swift_hash_path_suffix": "ssbench",
        }
    }
    for index, name in enumerate(POLICIES):
        sections[f"storage-policy:{index}"] = {"name": name}
    sections["storage-policy:0"]["default"] = "yes"
    return sections


def server_defaults(plan: Plan, role: str, etc: str) -> dict[str, str]:
    return {
        "bind_ip": plan.options.host,
        "bind_port": str(plan.ports[role]),
        "workers": "0",
        "swift_dir": etc,
        "log_level": "WARNING",
    }


#: All servers share a process, on a host that a test may overload. Shorter timeouts would cause
#: errors, and listings without some objects.
BACKEND_TIMEOUTS = {"conn_timeout": "30", "node_timeout": "60"}


def backend_conf(plan: Plan, role: str) -> Sections:
    kind = "mem_object" if role == "object" and plan.options.in_memory else role
    return {
        "DEFAULT": {
            **server_defaults(plan, role, etc_dir(plan, role)),
            "devices": plan.node_dir,
            "mount_check": "false",
            "disable_fallocate": "true",
            "fallocate_reserve": "0",
        },
        "pipeline:main": {"pipeline": f"{role}-server"},
        f"app:{role}-server": {
            "use": f"egg:swift#{kind}",
            **BACKEND_TIMEOUTS,
            "container_update_timeout": "60",
            "log_requests": "false",
        },
    }


def etc_dir(plan: Plan, role: str) -> str:
    """One directory per role, because roles may run in separate processes."""
    return f"{plan.top}/etc-{role}"


#: No proxy-logging: the child writes its own access log, one line per request.
PIPELINE = (
    "catch_errors gatekeeper healthcheck listing_formats bulk tempurl s3api tempauth "
    "copy slo dlo versioned_writes symlink proxy-server"
)


def proxy_conf(plan: Plan) -> Sections:
    filters = {f"filter:{name}": {"use": f"egg:swift#{name}"} for name in PIPELINE.split()[:-1]}
    filters["filter:versioned_writes"] |= {"allow_object_versioning": "true"}
    filters["filter:s3api"] |= {"location": "us-east-1", "s3_acl": "false"}
    # Signed tokens; the alternative needs memcached.
    filters["filter:tempauth"] |= {
        "fernet_key_k1": plan.fernet_key,
        "active_fernet_key_id": "k1",
        "token_life": str(plan.options.token_life_s),
    } | {f"user_{account}_{user}": f"{key} {groups}" for account, user, key, groups in USERS}
    return {
        "DEFAULT": server_defaults(plan, "proxy", etc_dir(plan, "proxy")),
        "pipeline:main": {"pipeline": PIPELINE},
        "app:proxy-server": {
            "use": "egg:swift#proxy",
            "account_autocreate": "true",
            **BACKEND_TIMEOUTS,
            # There is no other replica, so keep sending requests to a server that failed.
            "error_suppression_limit": "1000000000",
        },
        **filters,
    }


def make_workdir(parent: str | None = None) -> Path:
    """Make a private directory, named after this process, where most space is free.

    First removes directories of this user's dead processes from the same places.

    :param parent: the place to use; None: $TMPDIR, or else one of WORKDIR_PLACES.
    :raises SsbenchError: no place is writable and supports the xattrs that Swift needs.
    """
    places = workdir_places(parent)
    for place in places:
        remove_stale(place)
    faults = []
    for place in sorted(places, key=free_bytes, reverse=True):
        try:
            top = Path(tempfile.mkdtemp(prefix=f"{WORKDIR_PREFIX}{os.getpid()}-", dir=place))
        except OSError as e:
            faults.append(f"{place}: {e.strerror}")
            continue
        if holds_attributes(top):
            return top
        shutil.rmtree(top, ignore_errors=True)
        faults.append(f"{place}: this file system has no user attributes (xattr)")
    raise SsbenchError(
        f"no directory for the embedded Swift ({'; '.join(faults)}); "
        "set TMPDIR to one on ext4, xfs or btrfs"
    )


def workdir_places(parent: str | None) -> list[str]:
    chosen = parent or os.environ.get("TMPDIR")
    return [chosen] if chosen else [place for place in WORKDIR_PLACES if os.path.isdir(place)]


def free_bytes(place: str) -> int:
    """Bytes that this user can still write at a place; 0 if unknown."""
    try:
        found = os.statvfs(place)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize


def holds_attributes(directory: Path) -> bool:
    """Whether files here can have user xattrs, in which Swift stores an object's metadata."""
    probe = directory / "probe"
    try:
        probe.touch()
        os.setxattr(probe, "user.swift.metadata", b"x")
    except OSError:
        return False
    finally:
        probe.unlink(missing_ok=True)
    return True


def remove_stale(place: str) -> None:
    """Remove our directories whose process has ended."""
    for path in sorted(Path(place).glob(f"{WORKDIR_PREFIX}*")):
        pid = owner_pid(path.name)
        if pid and is_ours(path) and not is_running(pid):
            shutil.rmtree(path, ignore_errors=True)


def is_ours(path: Path) -> bool:
    # lstat: a symbolic link, perhaps of another user, is not one of our directories.
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def owner_pid(name: str) -> int | None:
    """The process in a directory's name; None if the name isn't one of ours."""
    found = re.match(f"{WORKDIR_PREFIX}([0-9]{{1,9}})-", name)
    return int(found[1]) if found else None


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        pass
    return True


def remove_workdir(top: str) -> None:
    """Remove the tree, even while an ending server still writes into it."""
    for _ in range(5):
        shutil.rmtree(top, ignore_errors=True)
        if not os.path.lexists(top):
            return
