"""What the parent decides and the child carries out: it travels as one line of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

ROLES = ("account", "container", "object", "proxy")

#: Swift's tempauth users that every embedded Swift has: (account, user, key, groups).
USERS = (
    ("admin", "admin", "admin", ".admin .reseller_admin"),
    ("test", "tester", "testing", ".admin"),
    ("test", "tester3", "testing3", ""),
)

#: Storage policies by index; the first is the default.
POLICIES = ("gold", "silver")

#: Section -> option -> value: what a test adds to, or changes in, proxy-server.conf.
Sections = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Plan:
    """One embedded Swift. ``fernet_key`` signs its tokens and never shows in a repr."""

    top: str  #: the directory that holds all of it, devices included
    host: str  #: "127.0.0.1" or "::1"
    ports: Mapping[str, int]  #: by role
    access_log: str
    fernet_key: str = field(repr=False)
    token_life_s: int = 86400
    in_memory: bool = False  #: objects live in the child's memory rather than in files
    tls_cert: str = ""
    tls_key: str = ""  #: a path, as tls_cert is
    proxy_conf: Sections = field(default_factory=dict, repr=False)

    def to_json(self) -> str:
        """One line, secrets included: for the child's stdin only."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The inverse of ``to_json``."""
        return cls(**json.loads(text))

    @property
    def node_dir(self) -> str:
        """Where the devices (one: d1) are."""
        return f"{self.top}/node"


def conf_files(plan: Plan) -> dict[str, str]:
    """File name -> text, for all that Swift reads except the rings."""
    files = {"swift.conf": render(swift_conf())}
    for role in ROLES[:-1]:
        files[f"{role}-server.conf"] = render(backend_conf(plan, role))
    files["proxy-server.conf"] = render(overlaid(proxy_conf(plan), plan.proxy_conf))
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
    # A fixed prefix and suffix: they only guard against clients who choose names that hash
    # to one place, and nobody shares this store.
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
        "bind_ip": plan.host,
        "bind_port": str(plan.ports[role]),
        "workers": "0",
        "swift_dir": etc,
        "log_level": "WARNING",
    }


#: The servers wait for nobody but each other, in one process on a machine that may be overloaded
#: on purpose: short time-outs would only make errors, and listings that lack objects.
BACKEND_TIMEOUTS = {"conn_timeout": "30", "node_timeout": "60"}


def backend_conf(plan: Plan, role: str) -> Sections:
    kind = "mem_object" if role == "object" and plan.in_memory else role
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
        },
    }


def etc_dir(plan: Plan, role: str) -> str:
    """Each role reads a directory of its own, so that roles in separate processes never meet."""
    return f"{plan.top}/etc-{role}"


#: No proxy-logging: the child keeps a log of its own, of one line a request.
PIPELINE = (
    "catch_errors gatekeeper healthcheck listing_formats bulk tempurl s3api tempauth "
    "copy slo dlo versioned_writes symlink proxy-server"
)


def proxy_conf(plan: Plan) -> Sections:
    filters = {f"filter:{name}": {"use": f"egg:swift#{name}"} for name in PIPELINE.split()[:-1]}
    filters["filter:s3api"] |= {"location": "us-east-1", "s3_acl": "false"}
    # Signed tokens rather than ones kept in a memcached, which nobody wants to install.
    filters["filter:tempauth"] |= {
        "fernet_key_k1": plan.fernet_key,
        "active_fernet_key_id": "k1",
        "token_life": str(plan.token_life_s),
    } | {f"user_{account}_{user}": f"{key} {groups}" for account, user, key, groups in USERS}
    return {
        "DEFAULT": server_defaults(plan, "proxy", etc_dir(plan, "proxy")),
        "pipeline:main": {"pipeline": PIPELINE},
        "app:proxy-server": {
            "use": "egg:swift#proxy",
            "account_autocreate": "true",
            **BACKEND_TIMEOUTS,
            # There is no other replica to turn to, so a server that failed is asked again.
            "error_suppression_limit": "1000000000",
        },
        **filters,
    }
