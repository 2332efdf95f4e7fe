"""Lists of hosts: braces as in a shell, users, IPv6, numbers of processes."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from ssbench.core.errors import UsageError
from ssbench.core.hostlist import SshHost, parse_hosts


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("bench-01", [("bench-01", None)]),
        ("bench-01:4", [("bench-01", 4)]),
        ("bench-01:auto", [("bench-01", None)]),
        ("root@bench-01:4", [("root@bench-01", 4)]),
        ("j.doe+x_1-y@bench-01", [("j.doe+x_1-y@bench-01", None)]),
        ("[2001:DB8::7]:2", [("2001:db8::7", 2)]),
        ("me@[::1]", [("me@::1", None)]),
        ("192.0.2.7:3", [("192.0.2.7", 3)]),
        ("a:1,b:2 c", [("a", 1), ("b", 2), ("c", None)]),
        ("# ours\na:1  # the first\n\n  b\n", [("a", 1), ("b", None)]),
        ("b-{08..11}:4", [("b-08", 4), ("b-09", 4), ("b-10", 4), ("b-11", 4)]),
        ("{a,b}{1..2}:3", [("a1", 3), ("a2", 3), ("b1", 3), ("b2", 3)]),
        ("h{1,{3..4}}:{2}".replace("{2}", "2"), [("h1", 2), ("h3", 2), ("h4", 2)]),
        ("h:{1..1}", [("h", 1)]),
        ("n[08-10]:2,m[3]", [("n08", 2), ("n09", 2), ("n10", 2), ("m3", None)]),
        ("n[1-2,07]-[0-1]", [(f"n{n}-{m}", None) for n in ("1", "2", "07") for m in "01"]),
        ("h{1...3}:4", [("h1", 4), ("h2", 4), ("h3", 4)]),
    ],
)
def test_hosts(text: str, hosts: list[tuple[str, int | None]]) -> None:
    assert parse_hosts(text) == tuple(SshHost(*host) for host in hosts)


BRACES = [
    "x{01..20}y", "{1..3}", "{3..1}", "{1..9..2}", "{9..1..-3}", "{9..1..3}", "{001..3}", "{a,b}",
    "{a,b,}x", "{a,{1..3},z}-{b,c}", "{-1..2}", "{7..7}", "{10..08}", "p{1..3..0}",
]  # fmt: skip


@pytest.mark.parametrize("text", BRACES)
def test_braces_mean_what_they_mean_to_a_shell(text: str) -> None:
    bash = shutil.which("bash")
    assert bash, "every Linux host of ours has one"
    said = subprocess.run([bash, "-c", f"echo h{text}"], capture_output=True, text=True, check=True)
    assert [host.target for host in parse_hosts(f"h{text}")] == said.stdout.split()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "there is no host"),
        (" , # a", "there is no host"),
        ("-oProxyCommand=x", "'-oProxyCommand=x': give HOST"),
        ("a@-x", "'a@-x': give HOST"),
        ("-x@a", "'-x@a': give HOST"),
        ("a;b", "'a;b': give HOST"),
        ("a b:4 a", "a is given twice"),
        ("2001:db8::7", "'2001:db8::7': give HOST"),
        ("[bench-01]", "no IPv6 address is in the brackets"),
        ("a:0", "give 1 to 1,024 processes, or auto"),
        ("a:" + "9" * 5000, "give 1 to 1,024 processes, or auto"),
        ("a{1..3", "a brace is not closed"),
        ("n[1-2", "'n[1-2': give HOST"),
        ("a{1}", "give a range {01..20} or a list {a,b}"),
        ("a1..3}", "'a1..3}': give HOST"),
        ("a{1..1000000000}", "at most 9 digits"),
        ("a{1..2000}", "more than 1,024 hosts"),
        ("a{1..99999}{1..99999}", "more than 1,024 hosts"),
        ("a" + "{1..1}" * 1200, "more than 16 pairs of braces"),
    ],
)
def test_a_malformed_list_says_what_is_wrong(text: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_hosts(text)
    assert why in str(caught.value)


@pytest.mark.parametrize("place", ["x{}@b", "{}x@b", "x@b{}", "b{}c"])
def test_characters_of_a_shell_are_refused(place: str) -> None:
    for char in ";$`|&<>()'\"\\!~*?^=":
        with pytest.raises(UsageError, match="give HOST or HOST:PROCESSES"):
            parse_hosts(place.format(char))
