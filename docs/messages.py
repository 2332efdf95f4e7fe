"""The index of messages in docs/reference/messages.rst, from the texts in the code.

A row of ``MESSAGES`` finds the shortest text in the modules of ssbench that has its parts. Where a
text has no advice of its own, because that is behind it in the message, or differs, the row has it.
"""

from __future__ import annotations

import ast
import errno
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).resolve().parent.parent / "ssbench"

#: Section of the page -> parts of each message, with ``...`` between them and ``|`` where what
#: happened ends before them; and advice.
MESSAGES: dict[str, dict[str, str]] = {
    "login": {
        "no credentials|: give them": "",
        "credentials are incomplete: ... missing": "give those that the message lists, too",
        "user or key refused": "check both; with Keystone also the project and the domains",
        "token refused": "get a new token, or give user and key",
        "application credential refused": "check its id, or name, and its secret; it may have been "
        "deleted, or have expired",
        "no such page|: is the URL right ... For Keystone": "",
        "no such page|: does this Keystone speak v3": "",
        "no such page|: is this Keystone's URL": "",
        "this is not Keystone": "",
        "Keystone finds the request malformed|: check user and": "",
        "Keystone finds the request malformed|: check user, project": "",
        "Keystone requires a second factor": "give an application credential, which needs none",
        "no ... endpoint for ...": "the message lists what the catalog has: correct "
        "--os-region-name or --os-endpoint-type. If the catalog is empty, the user has no role in "
        "the project",
        "gives a storage URL without TLS": "",
        "the storage URL or the region repeats the key or the token": "correct the store's "
        "configuration, or give the right URL with -S",
        "the store refuses the token that was given": "",
        "the store rejected the given token": "",
        "the store rejected the given credentials": "they expired during the run: give some that "
        "last longer",
        "the token is empty or holds characters": "the URL is that of another service",
        "redirects to another host": "",
        "redirects to| ... give that URL": "",
        "too many redirects": "check the URL, and the configuration of the service",
        "no credentials for S3": "",
        "a request for a bucket by its host name": "",
        "which needs botocore|: ": "install it; or use a profile that has only keys, region and "
        "endpoint",
        "no keys within ...|: does what gives them": "",
        "the store has no ListObjectsV2": "use another store, or a gateway that has it",
        "ssbench does not support ... in auth of clouds.yaml": "log in with a password, a token or "
        "an application credential",
        "of clouds.yaml for something else than text": "",
        "is the secret key right?": "a key of another store is refused, too",
        "is the access key right?": "a key of another store is refused, too",
        "is it another store's access key?": "give the keys of this store",
        "get new keys and a session token": "the session token (AWS_SESSION_TOKEN) has expired",
        "there is no bucket": "",
        "asks for user and password": "",
        "asks for a user now": "start again: the WebDAV server has changed what it asks for",
        "offers no authentication that ssbench knows": "turn on one of these in the WebDAV server",
        "there is no such collection": "",
        "something in between, such as a proxy": "",
        "is it a WebDAV collection?": "check --url",
        "workers on other hosts could not prove": "other hosts need a --path that can be written, "
        "in a file system that all share",
    },
    "network": {
        "connection refused": "",
        "no connection within --connect-timeout|: is": "",
        "no response within --network-timeout|: is": "the whole response has to come within it and "
        "--connect-timeout together",
        "no route to host": "",
        "network is unreachable": "",
        "is the host's name right": "what the system says is in front of it, such as: name or "
        "service not known",
        "is set, and ssbench uses no proxy": "run the workers on hosts that need no proxy",
        "the connection broke, or the response is not HTTP": "",
        "a response of more than ... bytes": "another service listens at this URL: correct it",
        "JSON of more than ... values": "as above",
        "is the storage URL right, and does the store run?": "it is the URL which the login gave: "
        "give the right one with -S, or correct it in the store's configuration",
        "is the storage URL right, and does a firewall drop packets?": "as above",
        "its certificate is not trusted": "",
        "its certificate has expired": "",
        "its certificate is not valid yet": "",
        "its certificate is for another host": "",
        "the server speaks no TLS there": "",
        "CA certificates can't be used": "give a file in PEM form with --os-cacert",
        ": has no certificates in PEM form": "as above",
        "client certificate ... can't be used": "give certificate and key in PEM form, the key "
        "unencrypted, with --os-cert and --os-key",
        "does the server speak TLS at this port?": "check also the versions of TLS, and the "
        "ciphers, that it accepts",
    },
    "store": {
        "this host's clock is ... the store's": "set both by NTP, for example with chrony",
        "RequestTimeTooSkewed|: this host's clock": "",
        "the token was refused|: get a new one": "",
        "does the bucket belong to account": "correct it, or leave it out; or the user may not do "
        "that there",
        "the account is full": "",
        "this user may not make containers there": "",
        "nothing is there": "",
        "the store is overloaded, or too few of its servers": "",
        "the store has no space left": "",
        "the initial objects take ..., and the store has": "",
        "the store has no storage policy ... those it has": "give one of those with -p",
        'container "..." already exists under ..., not': "",
        'container "..." could not be made': "the end of the message has the reason",
        "nothing says that ssbench made it": "",
        "can't see whether ssbench made it": "check that it is yours",
        "there are no objects in": "check the container's name, and the account",
        "the store's listing is not in order: ...": "the store has a defect: nothing was deleted "
        "that the message doesn't name",
        "the store's listing of open uploads is not in order": "as above",
    },
    "workers": {
        "can't listen there: ... (--zmq-bind-ip": "end the other ssbench-master, or give other "
        "ports; --zmq-bind-ip has to be an address of this host",
        "--web ...: can't listen there": "name another port, or an address of this host",
        "--metrics-port ...: can't listen there": "give another port",
        "The default ports are in use": "nothing, if this host is to make the load; to use workers "
        "that were started by hand, end the other ssbench-master first",
        "No worker is there: starting": "nothing, if this host is to make the load; else start "
        "workers first, or give --expect-workers",
        "no worker joined within": "the message ends with what to open and to give: workers need "
        "the three ports, and the same key file",
        "only ... of ... workers joined within": "look at their logs; --worker-wait waits longer",
        "only ... of ... workers joined within ...; the run was not started": "as above",
        "have ended, and no other can join": "look at their logs, which an earlier message names",
        "Rejected a peer at": "give the same --zmq-key-file on both sides",
        "The master rejects this worker": "as above",
        "can't join: its ssbench": "",
        "Worker ... is of ssbench": "",
        "anyone who can reach ... can read the token": "write one with make-key, and give it on "
        "both sides",
        ", port ...: can't listen there": "end what listens there, or give another port",
        "... users in ... are too many for this host": "raise the limit that the message names, "
        "such as ulimit -n, or use more workers or hosts",
        "... users are too many for this host": "as above",
        "The workers can run only": "",
        "no socket is left": "raise the limit of open files with ulimit -n",
        "no address is known for this host (": "give an IP address with --zmq-host and "
        "--zmq-bind-ip",
        "the embedded Swift ended during its start": "look at the end of the message; often the "
        "folder that TMPDIR names has no space",
        "the embedded Swift did not respond for": "the host is too busy: end other programs",
        "no directory for the embedded Swift": "",
    },
    "files": {
        "are free, and the results may need": "",
        "no space left on device|; ": "",
        "no such file or directory|; make the folder": "",
        "--results-dir ...: can't be used": "give another folder, or change who may write there",
        "can't be overwritten": "",
        ": can't be written: ...": "the end of the message has the reason: free space, or write "
        "elsewhere",
        ": can't be read: ...": "check the file's name, and who may read it",
        "has to be a regular file, and is ...": "name a file, or ``<(...)`` "
        "of a shell where a pipe is wanted",
        "is not UTF-8 text": "save the file as UTF-8; or it is another kind of file",
        "has more than ..., which no such file needs": "check the file's name",
        "isn't overwritten: ...": "name another place with -s",
        "is there already|; --force": "",
        "it is empty|: no run": "the run ended before it began",
        "it is no stat file|: it is not": "check the name that -s gives",
        "it is msgpack, but no stat file": "as above",
        "it is gzip, but no stat file": "as above",
        "it is cut off in its first block": "nothing can be recovered",
        "there is no footer": "all that is there is reported",
        "it was written by a newer ssbench": "read it with that release",
        "the end may be lost": "check the disk; the report says how much is there",
        "is damaged, or cut off": "copy the access log again",
        "is closed; nothing more is written": "an earlier message says why",
        "and on are in use": "delete old logs of workers in the folder",
        "this command needs the package numpy": "",
        "cannot write to standard output": "free space where it goes; files and results were "
        "written",
        "--html-assets: plotly is not installed": "",
        "too many open files|: raise the limit": "",
        "resource temporarily unavailable|: ": "",
        "cannot allocate memory|: ": "",
    },
}


def rows(section: str) -> list[tuple[str, str]]:
    """What happened, and what to do, of each message of a section.

    :raises LookupError: no text has the parts of a row, or nothing says what to do.
    """
    found = []
    for parts, advice in MESSAGES[section].items():
        pattern = pattern_of(parts)
        hits = [hit for text in texts_of_code().all if (hit := pattern.search(text))]
        if not hits:
            raise LookupError(f"{parts}: no text in ssbench has it")
        hit = min(hits, key=lambda hit: (len(hit.string), hit.string))
        what, own = _split(hit.string, hit.end(1))
        if not own and not advice:
            raise LookupError(f"{parts}: neither the message nor its row says what to do")
        sentences = [f"{each[:1].upper()}{each[1:]}" for each in (own, advice) if each]
        found.append((what, " ".join(s if s[-1] in ".?" else f"{s}." for s in sentences)))
    return found


def pattern_of(parts: str) -> re.Pattern[str]:
    """What finds the text that a row is about; its first group is what happened."""
    head, _, tail = (
        ".*".join(re.escape(part.strip()) for part in side.split("..."))
        for side in parts.partition("|")
    )
    return re.compile(f"({head}){tail}")


def _split(text: str, start: int) -> tuple[str, str]:
    """What happened, and the advice behind it, or "", of a text whose first part ends behind
    ``start``."""
    for cut in re.finditer(r": |; ", text):
        before, after = text[: cut.start()], text[cut.end() :]
        is_whole = before.count("(") == before.count(")") and before.count('"') % 2 == 0
        if cut.start() >= start and is_whole and re.match(r".{0,4}[a-z-]{2}", after):
            return _clean(before), _clean(after)
    return _clean(text), ""


def _clean(text: str) -> str:
    text = re.sub(r"^(\.\.\.(, port \.\.\.)?: )+", "", text)
    text = re.sub(r"^[ ;:]+|[ ;:]+$|:? \.\.\.$|(?<=[^ .])\.\.\.$", "", text)
    text = text.rstrip(" ;:")
    return text.strip("( ") if "(" in text and ")" not in text else text


class Texts(NamedTuple):
    """What the modules say; ``...`` stands for what differs."""

    #: Every text; behind what the system says, where it is in a table by errno.
    all: frozenset[str]
    #: Name of an exception, and the text that it is made with.
    raised: frozenset[tuple[str, str]]


@cache
def texts_of_code() -> Texts:
    found: set[str] = set()
    raised: set[tuple[str, str]] = set()
    for path in SOURCES.glob("**/*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        known = {
            target.id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        found.update(_texts(tree, known))
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Name(id=name), args=[text, *_]) if name.endswith("Error"):
                    raised.add((name, _said(text, {})))
    return Texts(frozenset(found), frozenset(raised))


def _texts(node: ast.AST, known: dict[str, ast.expr]) -> Iterator[str]:
    """The texts in the code below a node, those inside of others left out."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            error = ""
            if isinstance(key, ast.Attribute) and hasattr(errno, key.attr):
                error = os.strerror(getattr(errno, key.attr)).lower()
            for text in _texts(value, known):
                mark = "" if text[:1] in ":;" else ": "
                yield f"{error}{mark}{text}" if error else text
        return
    text = _said(node, known)
    says = text.strip(". ")
    if says:
        text = " ".join(re.sub(r";?\n", "; ", text).split())
        text = re.sub(r"(\.{3}){2,}|\{\}|%s", "...", text)
        says = text.strip(". ")
    if says:
        yield text
    for child in ast.iter_child_nodes(node):
        if not (says and isinstance(child, ast.Constant)):
            yield from _texts(child, known)


def _said(node: ast.AST, known: dict[str, ast.expr]) -> str:
    """The text of an expression; "..." for what isn't known."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_said(value, known) for value in values)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _said(left, known) + _said(right, known)
        case ast.FormattedValue(
            value=ast.Call(func=ast.Name(id="plural"), args=[_, ast.Constant(value=noun)])
        ):
            return f"... {noun}s"
        case ast.FormattedValue(value=ast.Name() as name):
            return _said(name, known)
        case ast.Name(id=name) if isinstance(known.get(name), ast.Constant | ast.JoinedStr):
            return _said(known[name], known)
    return "..."
