"""The process of WsgiDav: ``python -m tests.servers.wsgidav_server PORT FOLDER AUTHENTICATION``."""

from __future__ import annotations

import os
import sys
import tempfile
from io import BufferedReader, BufferedWriter

from cheroot import wsgi
from wsgidav.fs_dav_provider import FileResource, FilesystemProvider
from wsgidav.wsgidav_app import WsgiDAVApp

from tests.servers.webdav import PASSWORD, USER


class WholeFile(FileResource):
    """A file that a PUT replaces at once, as with Apache and nginx.

    wsgidav itself empties it first and writes then, so a GET beside the PUT sees a part or nothing:
    what a run counts would depend on chance.
    """

    def __init__(self, path: str, environ: dict[str, object], file_path: str) -> None:
        self._opened = open(file_path, "rb")  # noqa: SIM115 - closed with this
        super().__init__(path, environ, file_path)
        self.file_stat = os.fstat(self._opened.fileno())  # length and content are of one file

    def get_etag(self) -> str:
        return f"{self.file_stat.st_ino}-{self.file_stat.st_mtime_ns}-{self.file_stat.st_size}"

    def get_content(self) -> BufferedReader:
        return self._opened

    def begin_write(self, *, content_type: str | None = None) -> BufferedWriter:
        beside = os.path.dirname(self.provider.root_folder_path)  # of the same file system
        handle, self._written = tempfile.mkstemp(dir=beside)
        return os.fdopen(handle, "wb")

    def end_write(self, *, with_errors: bool) -> None:
        if with_errors:
            os.unlink(self._written)
        else:
            os.replace(self._written, self._file_path)
            self.file_stat = os.stat(self._file_path)


class Provider(FilesystemProvider):
    """Gives those."""

    def get_resource_inst(self, path: str, environ: dict[str, object]) -> object:
        found = super().get_resource_inst(path, environ)
        return WholeFile(path, environ, found._file_path) if type(found) is FileResource else found


def main(port: str, folder: str, authentication: str) -> None:
    is_digest = authentication == "digest"
    users = True if authentication == "none" else {USER: {"password": PASSWORD}}
    app = WsgiDAVApp(
        {
            "provider_mapping": {"/dav": Provider(folder)},
            "http_authenticator": {
                "accept_basic": not is_digest,
                "accept_digest": is_digest,
                "default_to_digest": is_digest,
            },
            "simple_dc": {"user_mapping": {"*": users}},
            "property_manager": True,
            "lock_storage": True,
            "logging": {"enable": False},
            "verbose": 0,
        }
    )
    wsgi.Server(("127.0.0.1", int(port)), app, numthreads=16, timeout=60).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
