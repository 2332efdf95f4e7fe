"""nginx as a store that is never the limit: one process, files in memory, over HTTP and TLS.

Large objects to be read are on a disk instead: only there has it more to give than a client takes.

What a benchmark client sees is Swift: a login of version 1, containers that are always there and
empty, objects by PUT, GET, HEAD and DELETE, transaction ids; or S3 that checks no signature.
Debian: ``apt-get install nginx``.
"""

from __future__ import annotations

import contextlib
import ctypes
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ACCOUNT = "AUTH_test"
NOT_HERE = "not run: apt-get install nginx"
#: For what goes to a disk; `make clean` removes what a killed runner left.
_ON_DISK = Path(__file__).resolve().parents[1] / ".bench"
_TIMEOUT_S = 10.0
_PR_SET_PDEATHSIG = 1
_PLACES = ("/usr/sbin/nginx", "/usr/local/sbin/nginx")

# master_process off: the process that is started is the one that works, so affinity, rank and
# processor time are those of one pid. open_file_cache is off: objects are replaced all the time.
# A body of up to client_body_buffer_size is taken into memory first and written at once.
_CONFIG = """
daemon off;
master_process off;
pid {place}/nginx.pid;
error_log {place}/error.log warn;
events {{ worker_connections 8192; multi_accept on; }}
http {{
  access_log off;
  log_not_found off;
  client_body_temp_path {place}/temp/body;
  proxy_temp_path {place}/temp/proxy;
  fastcgi_temp_path {place}/temp/fastcgi;
  uwsgi_temp_path {place}/temp/uwsgi;
  scgi_temp_path {place}/temp/scgi;
  client_body_buffer_size 128k;
  client_max_body_size 0;
  keepalive_requests 1000000000;
  keepalive_timeout 600s;
  sendfile {sendfile};
  tcp_nodelay on;
  default_type application/octet-stream;
  ssl_certificate {place}/cert.pem;
  ssl_certificate_key {place}/key.pem;
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    listen 127.0.0.1:{tls_port} ssl backlog=4096;
    add_header X-Trans-Id tx$request_id always;
    location = /auth/v1.0 {{
      add_header X-Storage-Url $scheme://$http_host/v1/{account};
      add_header X-Auth-Token token;
      return 200;
    }}
    location /v1/ {{
      root {place}/data;
      dav_methods PUT DELETE;
      create_full_put_path on;
    }}
    location /s3/ {{
      root {place}/data;
      dav_methods PUT DELETE;
      create_full_put_path on;
    }}
    location ~ ^/s3/[^/]+$ {{
      return 200 "<ListBucketResult><Contents><Key>.ssbench</Key></Contents></ListBucketResult>";
    }}
    location /dav/ {{
      root {place}/data;
      dav_methods PUT DELETE;
      create_full_put_path on;
    }}
    location ~ ^/dav/([^/]+/?)?$ {{
      if ($request_method = PROPFIND) {{ return 207 '<multistatus xmlns="DAV:"/>'; }}
      return 405;
    }}
    location ~ ^/dav/[^/]+/[.]ssbench$ {{
      return 200;
    }}
    location ~ ^/v1/[^/]+(/[^/]+)?$ {{
      add_header X-Trans-Id tx$request_id always;
      add_header X-Container-Object-Count 0;
      add_header X-Container-Bytes-Used 0;
      add_header X-Container-Meta-Ssbench 1;
      if ($request_method = PUT) {{ return 201; }}
      if ($request_method = GET) {{ return 200 "[]"; }}
      return 204;
    }}
  }}
}}
"""


class NginxError(Exception):
    """It can't be started; the message says why."""


@dataclass
class Nginx:
    """A running one. A context manager; leaving it ends the process and removes its files."""

    place: Path
    process: subprocess.Popen[bytes]
    port: int
    tls_port: int

    @property
    def url(self) -> str:
        """The storage URL, without TLS."""
        return f"http://127.0.0.1:{self.port}/v1/{ACCOUNT}"

    @property
    def s3_url(self) -> str:
        """An S3 endpoint without TLS: any bucket is there, empty, with ssbench's mark."""
        return f"http://127.0.0.1:{self.port}/s3"

    @property
    def s3_tls_url(self) -> str:
        """The same over TLS."""
        return f"https://127.0.0.1:{self.tls_port}/s3"

    @property
    def dav_url(self) -> str:
        """A WebDAV collection: any container is there, empty, with ssbench's mark."""
        return f"http://127.0.0.1:{self.port}/dav"

    @property
    def tls_url(self) -> str:
        """The same objects over TLS."""
        return f"https://127.0.0.1:{self.tls_port}/v1/{ACCOUNT}"

    @property
    def authority(self) -> Path:
        """The certificate to trust (PEM)."""
        return self.place / "ca.pem"

    def put(self, name: str, size: int) -> None:
        """An object (``container/object``) of so many bytes, without asking the server."""
        path = self.place / "data" / "v1" / ACCOUNT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"n" * size)

    def empty(self) -> None:
        """Remove all objects."""
        shutil.rmtree(self.place / "data")
        (self.place / "data").mkdir()

    def __enter__(self) -> Nginx:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.place)


def find() -> str | None:
    """The program; None where it isn't installed."""
    return shutil.which("nginx") or next((at for at in _PLACES if Path(at).exists()), None)


def start(*, page_cache: bool = False) -> Nginx:
    """Start one; it stands wherever the caller stands now (affinity, rank).

    :param page_cache: its files are on a disk, and GETs go out of the page cache by sendfile: a
        large object isn't copied, so the server has more to give. Without it head and body of a
        small object leave in one system call.
    :raises NginxError: it isn't installed, or doesn't come up.
    """
    program = find()
    if program is None:
        raise NginxError(NOT_HERE)
    place = Path(tempfile.mkdtemp(prefix="ssbench-nginx-", dir=_folder(page_cache)))
    for name in ("data", "temp"):
        (place / name).mkdir()
    _make_certificates(place)
    port, tls_port = _free_ports()
    config = place / "nginx.conf"
    config.write_text(
        _CONFIG.format(
            place=place, port=port, tls_port=tls_port, account=ACCOUNT,
            sendfile="on" if page_cache else "off",
        )
    )  # fmt: skip
    process = subprocess.Popen(
        [program, "-p", str(place), "-e", str(place / "error.log"), "-c", str(config)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=_end_with_parent,
    )  # fmt: skip
    server = Nginx(place, process, port, tls_port)
    try:
        _await(server)
    except BaseException:
        server.__exit__()
        raise
    return server


def _folder(page_cache: bool) -> Path | None:
    """Where its files are to be; None: wherever temporary files are."""
    if page_cache:
        _ON_DISK.mkdir(exist_ok=True)
        return _ON_DISK
    memory = Path("/dev/shm")  # nosec B108 # a folder of its own is made in it
    return memory if memory.is_dir() else None


def _end_with_parent() -> None:
    """However the runner ends: a server that stays would be measured along with the next one."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _await(server: Nginx) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while server.process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", server.port)):
            return
        time.sleep(0.01)
    words = (server.place / "error.log").read_text().strip()
    raise NginxError(f"nginx doesn't come up: {words or 'it says nothing'}")


def _make_certificates(place: Path) -> None:
    import trustme

    authority = trustme.CA()
    server = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(str(place / "ca.pem"))
    server.cert_chain_pems[0].write_to_path(str(place / "cert.pem"))
    server.private_key_pem.write_to_path(str(place / "key.pem"))


def _free_ports() -> Iterator[int]:
    """Two that no process listens on."""
    with socket.socket() as one, socket.socket() as other:
        for sock in (one, other):
            sock.bind(("127.0.0.1", 0))
        return iter([one.getsockname()[1], other.getsockname()[1]])
