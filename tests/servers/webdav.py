"""Real WebDAV servers on loopback: Apache, nginx (both of Debian) and wsgidav (of PyPI).

Each is a context manager with ``url``, and serves an empty folder to USER, with ``authentication``
"digest", "basic" or "" (nobody is asked who he is). Nothing of Debian's own set-up of the servers
is used, and none of its services.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from base64 import b64encode
from contextlib import ExitStack
from hashlib import md5, sha1
from pathlib import Path
from pwd import getpwnam

from tests.ports import held_port
from tests.servers.programs import path_of
from tests.timing import PATIENCE_S

USER, PASSWORD = "tester", "Wd7-passw0rd, of nobody else"
REALM = "dav of the tests"

_APACHE_MODULES = Path("/usr/lib/apache2/modules")


class DavServer:
    """What the three have in common: a process, a folder ``files`` and an address."""

    def __init__(self, authentication: str = "") -> None:
        self.authentication = authentication

    @property
    def options(self) -> list[str]:
        """Of ssbench-master."""
        return ["--storage", "webdav", "--url", self.url]

    @property
    def environment(self) -> dict[str, str]:
        """Of ssbench-master: who we are."""
        if not self.authentication:
            return {}
        return {"WEBDAV_USER": USER, "WEBDAV_PASSWORD": PASSWORD}

    @property
    def secrets(self) -> list[str]:
        """The password, and what is as good: HA1 of digest, the header of basic authentication."""
        basic = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        keys = [md5(f"{USER}:{realm}:{PASSWORD}".encode()).hexdigest() for realm in (REALM, "/dav")]
        return [PASSWORD, basic, *keys]

    def command(self) -> list[str]:
        """Writes what the server needs into ``place``; gives its command line."""
        raise NotImplementedError

    def __enter__(self) -> DavServer:
        with ExitStack() as opened:
            self.place = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="dav-")))
            self.files = self.place / "dav"
            self.files.mkdir()
            # Not before: a port that nobody listens on is not held for ever.
            self.port = held_port("127.0.0.1")
            self.url = f"http://127.0.0.1:{self.port}/dav"
            self.start()
            opened.callback(self.stop)
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._opened.close()

    def start(self) -> None:
        """Start the server, again after ``stop``."""
        with (self.place / "output").open("ab") as output:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                cwd=Path(__file__).parents[2],
            )  # fmt: skip
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"{self.url}/", timeout=5).close()
                return
            except urllib.error.HTTPError as answer:
                answer.close()
                return
            except OSError:
                time.sleep(0.02)
        self.stop()
        raise AssertionError(f"it doesn't start: {(self.place / 'output').read_text()[-2000:]}")

    def stop(self) -> None:
        """End the server; its files stay."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def names(self) -> list[str]:
        """What is in the folder, as paths relative to it; folders end with a slash."""
        return sorted(
            f"{path.relative_to(self.files)}{'/' * path.is_dir()}"
            for path in self.files.rglob("*")
            if not {".DAV"} & {*path.parts}
        )

    def password_file(self) -> Path:
        """The users' file, of the format of Apache."""
        path = self.place / "users"
        if self.authentication == "digest":
            key = md5(f"{USER}:{REALM}:{PASSWORD}".encode()).hexdigest()
            path.write_text(f"{USER}:{REALM}:{key}\n")
        else:
            hashed = b64encode(sha1(PASSWORD.encode()).digest()).decode()  # both servers know this
            path.write_text(f"{USER}:{{SHA}}{hashed}\n")
        return path


class Apache(DavServer):
    """mod_dav and mod_dav_fs.

    :param nonce_lifetime_s: after so long it says that a nonce is stale.
    """

    def __init__(self, authentication: str = "", nonce_lifetime_s: int = 300) -> None:
        super().__init__(authentication)
        self._nonce_lifetime_s = nonce_lifetime_s

    def command(self) -> list[str]:
        modules = [
            "mpm_event", "authz_core", "authz_user", "authn_core", "authn_file", "auth_basic",
            "auth_digest", "dav", "dav_fs",
        ]  # fmt: skip
        lines = [f"LoadModule {m}_module {_APACHE_MODULES}/mod_{m}.so" for m in modules]
        if os.geteuid() == 0:  # it refuses to work as root
            lines += ["User www-data", "Group www-data"]
            owner = getpwnam("www-data")
            self.place.chmod(0o755)
            for path in (self.files, self.place):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        lines += [
            f"ServerRoot {self.place}", "ServerName 127.0.0.1", f"Listen 127.0.0.1:{self.port}",
            f"PidFile {self.place}/pid", f"ErrorLog {self.place}/error.log",
            f"Mutex file:{self.place}", f"DavLockDB {self.place}/locks",
            f"DefaultRuntimeDir {self.place}", "MaxKeepAliveRequests 0", "KeepAliveTimeout 60",
            "StartServers 1", "ThreadsPerChild 64", "MaxRequestWorkers 64", "ServerLimit 1",
            f"DocumentRoot {self.place}", f"<Location /dav>\nDav On\n{self._access()}\n</Location>",
            "AllowEncodedSlashes NoDecode",
        ]  # fmt: skip
        path = self.place / "apache.conf"
        path.write_text("\n".join(lines) + "\n")
        return [path_of("apache2"), "-f", str(path), "-DFOREGROUND"]

    def _access(self) -> str:
        if not self.authentication:
            return "Require all granted"
        kind = self.authentication.capitalize()
        lines = [
            f"AuthType {kind}", f'AuthName "{REALM}"', f"Auth{kind}Provider file",
            f"AuthUserFile {self.password_file()}", "Require valid-user",
        ]  # fmt: skip
        if kind == "Digest":
            lines.append(f"AuthDigestNonceLifetime {self._nonce_lifetime_s}")
        return "\n".join(lines)


class Nginx(DavServer):
    """Its dav module with dav-ext; it knows no digest, and no PROPPATCH."""

    def command(self) -> list[str]:
        access = ""
        if self.authentication:
            access = f'auth_basic "{REALM}"; auth_basic_user_file {self.password_file()};'
        temporary = "\n".join(
            f"{kind}_temp_path {self.place}/{kind};"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        user = "user root;" if os.geteuid() == 0 else ""
        path = self.place / "nginx.conf"
        path.write_text(
            f"""load_module {path_of("nginx-dav-ext")}; {user}
            daemon off; worker_processes 1; pid {self.place}/pid;
            error_log {self.place}/error.log warn;
            events {{ worker_connections 1024; }}
            http {{
              access_log off; keepalive_requests 1000000; client_max_body_size 0;
              {temporary}
              server {{
                listen 127.0.0.1:{self.port};
                location /dav/ {{
                  root {self.place};
                  dav_methods PUT DELETE MKCOL COPY MOVE;
                  dav_ext_methods PROPFIND OPTIONS;
                  dav_access user:rw;
                  {access}
                }}
              }}
            }}"""
        )
        return [path_of("nginx"), "-c", str(path), "-e", f"{self.place}/error.log"]


class WsgiDav(DavServer):
    """Digest is MD5 with qop=auth; with digest it accepts basic as well."""

    def command(self) -> list[str]:
        return [
            sys.executable, "-m", "tests.servers.wsgidav_server", str(self.port), str(self.files),
            self.authentication or "none",
        ]  # fmt: skip


class Rclone(DavServer):
    """``rclone serve webdav``: basic authentication; no PROPPATCH of our own properties."""

    def command(self) -> list[str]:
        user = ["--user", USER, "--pass", PASSWORD] if self.authentication else []
        address = f"127.0.0.1:{self.port}"
        return [
            path_of("rclone"), "serve", "webdav", str(self.files), "--addr", address,
            "--baseurl", "dav", *user,
        ]  # fmt: skip
