"""What the parent passes to the child, as one line of JSON, and Swift's configuration files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec

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


class SwiftOptions(Hiding, frozen=True):
    """The choices that a user of an embedded Swift has."""

    HIDDEN = ("proxy_conf",)

    host: str = "127.0.0.1"  #: or "::1"
    port: int = 0  #: of the proxy; 0: any free port
    token_life_s: int = 86400
    in_memory: bool = False  #: keep objects in the server's memory instead of files
    tls_cert: str | Path = ""  #: PEM file; with it the proxy serves https
    tls_key: str | Path = ""  #: PEM file
    directory: str | None = None  #: parent of the data directory; None: see workdir
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
