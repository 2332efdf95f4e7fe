"""Options of the WebDAV store."""

from __future__ import annotations

from ssbench.core.option import Option
from ssbench.storage.options import TLS_OPTIONS, check_http_url

_GROUP = "WebDAV"
# fmt: off
OPTIONS: tuple[Option, ...] = (
    Option(("--url",), "urls", lambda text: check_http_url(text, "the URL"), group=_GROUP,
           metavar="URL", repeat=True,
           help="collection on the server in which containers are made: http://host/dav/bench; may "
           "be repeated if several servers serve the same one (see --url-choice)"),
    Option(("--webdav-user",), "webdav_user", group=_GROUP, metavar="USER",
           help="user name, if the server asks for one [default: as in .netrc]",
           variables=("WEBDAV_USER",)),
    Option(("--webdav-password",), "webdav_password", group=_GROUP, metavar="PASSWORD",
           help="the user's password; safer in the environment or in .netrc",
           variables=("WEBDAV_PASSWORD",), secret=True),
    Option(("--netrc",), "netrc", group=_GROUP, metavar="FILE",
           help="file with the users and passwords of servers [default: ~/.netrc]",
           variables=("NETRC",), file="r"),
    *TLS_OPTIONS,
)
# fmt: on
