"""The key that master and workers share: CURVE key pairs, and the file that holds them.

Without a file of ``--zmq-key-file``, a master and workers that meet on loopback use the key in the
home of their user, which the first of them makes: any user of a host can connect to its loopback,
and can listen there first.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import zmq
from msgspec.structs import astuple

from ssbench.core.errors import UsageError
from ssbench.core.hiding import Hiding
from ssbench.host.files import open_file

if TYPE_CHECKING:
    from typing_extensions import Self

NO_KEY_FILE = "none"  #: instead of a path: without a key, also on loopback
_MAGIC = "ssbench-key-1"
_LONGEST = 1024  #: bytes of a key file; a key has 178
_ROOT = 0


class CurveKey(Hiding, frozen=True):
    """CURVE key pairs of the master (server) and of all workers (client), in Z85.

    Both sides hold the same key: without it, no peer can send or receive. It is in no repr.
    """

    HIDDEN = ("server_public", "server_secret", "client_public", "client_secret")

    server_public: str
    server_secret: str
    client_public: str
    client_secret: str

    @classmethod
    def generate(cls) -> Self:
        server_public, server_secret = zmq.curve_keypair()
        client_public, client_secret = zmq.curve_keypair()
        return cls(*(k.decode() for k in (server_public, server_secret)),
                   *(k.decode() for k in (client_public, client_secret)))  # fmt: skip

    def to_text(self) -> str:
        """One line, for a key file or a pipe."""
        return " ".join([_MAGIC, *astuple(self)]) + "\n"

    @classmethod
    def from_text(cls, text: str, source: str) -> Self:
        """The inverse of ``to_text``.

        :raises UsageError: if it is no key; the message names ``source`` only.
        """
        words = text.split()
        if (
            len(words) != 5
            or words[0] != _MAGIC
            or not (_is_pair(words[1], words[2]) and _is_pair(words[3], words[4]))
        ):
            raise UsageError(
                f"{source}: not a key of ssbench; `ssbench-master make-key FILE` writes one"
            )
        return cls(*words[1:])

    @classmethod
    def load(cls, path: str, option: str = "--zmq-key-file") -> Self:
        """Read a key file: a regular file that only we (and root) can read or change.

        :param option: that named it.
        :raises UsageError: if it can't be read, isn't a key, or is open to others.
        """
        text = _read(path, option)
        return cls.from_text(text if len(text) <= _LONGEST else "", path)

    def save(self, path: str) -> None:
        """Write a new key file of mode 0600.

        :raises UsageError: if it exists already or can't be written.
        """
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except FileExistsError as error:
            raise UsageError(f"{path}: exists; a key is never overwritten") from error
        except (OSError, ValueError) as error:
            raise UsageError(f"{path}: can't be written: {_reason(error)}") from error
        try:
            with os.fdopen(fd, "w", encoding="ascii") as file:
                os.fchmod(fd, 0o600)  # whatever the umask took away
                file.write(self.to_text())
        except OSError as error:
            with suppress(OSError):
                os.unlink(path)
            raise UsageError(f"{path}: can't be written: {_reason(error)}") from error


class HostKey(CurveKey, frozen=True):
    """That of a user on this host: in no file that could be copied to others by mistake."""


def load_key(path: str | None) -> CurveKey | None:
    """The key of the key file; None without one.

    :raises UsageError: the file can't be used.
    """
    return CurveKey.load(path) if path and path != NO_KEY_FILE else None


def channel_key(
    path: str | None, address: str | None, warn: Callable[[str], None]
) -> CurveKey | None:
    """The key of the key file; without one, that of our user on this host, if the master is on
    loopback. None: no key.

    :param path: of the key file, or ``NO_KEY_FILE``; None: not given.
    :param address: the master's, as the user gave it; None: loopback.
    :param warn: called with why no key of our user can be made.
    :raises UsageError: a file that is there can't be used, or not be trusted.
    """
    if path:
        return load_key(path)
    if not (address is None or address == "localhost" or _is_loopback(address)):
        return None  # it may be for other hosts
    try:
        of_user = _host_key_path()
    except (OSError, UsageError) as error:
        warn(f"no key of this user on this host: {error}; other users of it can connect")
        return None
    try:
        return HostKey.load(of_user, option="") if of_user else None
    except UsageError as error:
        raise UsageError(f"{error}; or go without a key: --zmq-key-file none") from error


def is_of_host(key: CurveKey | None) -> bool:
    """Whether it is that of our user on this host, also if it came through a pipe."""
    with suppress(OSError, UsageError):
        path = _host_key_path() if key else None
        return key is not None and path is not None and astuple(HostKey.load(path)) == astuple(key)
    return False


def _host_key_path() -> str | None:
    """In our home, where the first of us makes the key; None if we have none that is ours.

    Not from a folder of the session (XDG_RUNTIME_DIR): workers outlive it, and what cron or systemd
    starts has none.

    :raises OSError, UsageError: it can't be made.
    """
    home = Path(os.path.expanduser("~"))
    try:
        if home == Path("/") or home.stat().st_uid != os.geteuid():
            return None  # containers with any user; sudo, which may keep HOME
    except OSError:
        return None
    path = home / ".local" / "state" / "ssbench" / "key"
    if not os.path.lexists(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        whole = path.with_name(f".key-{secrets.token_hex(8)}")
        HostKey.generate().save(str(whole))
        try:
            with suppress(FileExistsError):  # another one was first
                os.link(whole, path)
        finally:
            whole.unlink()
    return str(path)


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False  # a name: of this host, it means an address that others reach


def _read(path: str, option: str) -> str:
    """The text of a key file, or the beginning of a long one.

    The checks are on the open file, because another file may get its name meanwhile.

    :raises UsageError: it can't be read, or others could read or change it.
    """
    with open_file(path, option, follow=False) as file:
        try:
            fault = _fault(os.fstat(file.fileno()), path)
            data = b"" if fault else file.read(_LONGEST + 1)
        except OSError as error:
            fault = f"can't be read: {error.strerror}"
    if fault:
        raise UsageError(f"{option} {path}: the key file {fault}".lstrip())
    return data.decode("ascii", errors="replace")


def _fault(found: os.stat_result, path: str) -> str:
    """What is wrong with a key file; "" for nothing."""
    if found.st_uid not in (os.geteuid(), _ROOT):
        return f"belongs to another user (uid {found.st_uid}); make a copy of your own"
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return f"is open to others; `chmod 600 {path}` first"
    return ""


def _reason(error: Exception) -> str:
    return (
        error.strerror if isinstance(error, OSError) else None
    ) or "no file can have such a name"


def _is_pair(public: str, secret: str) -> bool:
    """Whether these are the two keys of a CURVE pair, in Z85."""
    if len(secret) != 40 or not secret.isascii():
        return False
    try:
        return zmq.curve_public(secret.encode()) == public.encode()
    except (zmq.ZMQError, ValueError):
        return False
