"""Options of the WebDAV store, and the user and password of each server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ssbench.core.errors import UsageError
from ssbench.core.option import Option
from ssbench.storage.options import TLS_OPTIONS, check_http_url

_GROUP = "WebDAV"
# fmt: off
OPTIONS: tuple[Option, ...] = (
    Option(("--url",), "urls", lambda text: check_http_url(text, "the URL"), group=_GROUP,
           metavar="URL", repeat=True,
           help="collection on the server in which containers are made: http://host/dav/bench; may "
           "be repeated if several servers serve the same one: each request uses one at random"),
    Option(("--webdav-user",), "webdav_user", group=_GROUP, metavar="USER",
           help="user name, if the server asks for one [default: as in .netrc]",
           variables=("WEBDAV_USER",)),
    Option(("--webdav-password",), "webdav_password", group=_GROUP, metavar="PASSWORD",
           help="the user's password; safer in the environment or in .netrc",
           variables=("WEBDAV_PASSWORD",), secret=True),
    Option(("--netrc",), "netrc", group=_GROUP, metavar="FILE",
           help="file with the users and passwords of servers [default: ~/.netrc]",
           variables=("NETRC",)),
    *TLS_OPTIONS,
)
# fmt: on


def user_of(url: str, values: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[str, str]:
    """User and password for a server; "" where there are none.

    :param values: of ``OPTIONS``.
    :raises UsageError: one is missing, or the file can't be read. The message shows no secret.
    """
    user, password = values.get("webdav_user", ""), values.get("webdav_password", "")
    if password and not user:
        raise UsageError("there is a password, and no user: give --webdav-user (WEBDAV_USER)")
    if not password:
        user, password = _from_netrc(urlsplit(url).hostname or "", user, values, environ)
    if user and not password:
        raise UsageError(
            "there is a user, and no password: set WEBDAV_PASSWORD, or put it into .netrc"
        )
    if not (user.isprintable() and password.isprintable()):
        raise UsageError("user or password contains control characters")
    return user, password


def _from_netrc(
    host: str, user: str, values: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[str, str]:
    import netrc  # few runs need it

    given = values.get("netrc", "")
    if not given and not environ.get("HOME"):
        return user, ""
    path = Path(given or f"{environ['HOME']}/.netrc")
    try:
        found = netrc.netrc(str(path)).authenticators(host)
    except FileNotFoundError:
        if given:
            raise UsageError(f"--netrc {path}: there is no such file") from None
        return user, ""
    except netrc.NetrcParseError as error:  # its text may show a password
        raise UsageError(f"{path}: line {error.lineno} is not valid") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise UsageError(f"{path}: {reason}") from None
    if found is None or (user and found[0] != user):
        return user, ""
    return found[0] or user, found[2] or ""
