"""Hiding: no repr shows what a struct hides, and no text of a store what it was sent."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from io import StringIO

import pytest
from rich.console import Console
from rich.pretty import pprint

import ssbench.storage
from ssbench.cli import parser, site
from ssbench.core import settings
from ssbench.core.hiding import Hiding, Secrets
from ssbench.core.scenario import scenario
from ssbench.embedded import plan
from ssbench.storage import options
from ssbench.storage.s3 import by_botocore
from ssbench.storage.swift import options as swiftlogin
from ssbench.storage.webdav import digest
from ssbench.transport import key

MODULES = (
    parser, site, settings, scenario, plan, digest, options, by_botocore, swiftlogin, key,
)  # fmt: skip


def structs() -> Iterator[type[Hiding]]:
    for module in MODULES:
        for each in vars(module).values():
            if isinstance(each, type) and issubclass(each, Hiding) and each is not Hiding:
                yield each


KINDS = sorted(set(structs()), key=lambda kind: kind.__name__)


def test_all_of_them_are_here() -> None:
    for module in pkgutil.walk_packages(ssbench.storage.__path__, "ssbench.storage."):
        import_module(module.name)
    found = {kind for kind in below(Hiding) if kind.__module__.startswith("ssbench")}
    assert found == {*KINDS}


def below(kind: type[Hiding]) -> Iterator[type[Hiding]]:
    for each in kind.__subclasses__():
        yield each
        yield from below(each)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_hidden_fields_are_in_no_text(kind: type[Hiding]) -> None:
    assert {*kind.HIDDEN} <= {*kind.__struct_fields__}
    made = kind(**{n: "s3cret" if n in kind.HIDDEN else "plain" for n in kind.__struct_fields__})
    file = StringIO()
    pprint(made, console=Console(file=file))
    for text in (repr(made), str(made), f"{made}", file.getvalue()):
        assert "s3cret" not in text
        assert "plain" in text or {*kind.HIDDEN} == {*kind.__struct_fields__}
        assert kind.__name__ in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("token abcdefghijkl-and-more<b refused", "token *** refused"),
        ("token abcdefghijkl", "token ***"),
        ("abcdefghijkl-and abcdefghijkl-or", "*** ***"),
        ("cut off: abcdefg", "cut off: ***"),
        ("cut off: abcdef...", "cut off: ***..."),
        ("abcdef is a word", "abcdef is a word"),
        ("too short: abcde", "too short: abcde"),
        ("no-one2", "***"),
        ("no-one", "***"),
        ("tiny", "tiny"),
        ("of an identity: nested-token", "of an identity: ***"),
        ("a password: dXNlcjpwYXNzd29yZDE= or password1", "a password: *** or ***"),
    ],
)
def test_texts_of_a_store_have_stars_for_our_secrets(text: str, shown: str) -> None:
    secrets = Secrets(
        {
            "token": "abcdefghijkl-and-more<b", "key": "no-one2", "other": "tiny",
            "identities": [{"token": "nested-token"}, {"basic": "dXNlcjpwYXNzd29yZDE="}],
        }
    )  # fmt: skip
    assert secrets.masked(text) == shown
    assert "abcdef" not in repr(secrets)
