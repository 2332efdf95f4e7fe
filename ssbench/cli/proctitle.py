"""The process list: masks secrets in command lines, and shows local workers by their name.

Anyone on the host can read a command line (``ps``, /proc/PID/cmdline). For a moment after the start
a secret can be read there, so a file or the environment is safer.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from functools import cache

from ssbench.cli.console import MASK
from ssbench.cli.worker_options import WORKER

_OF_EVERY_PROGRAM = ("-h", "--help", "--help-all", "--version")
_NECTAR = "P"  #: a password in a command line of nectar
_NECTAR_LONG = ("--P", "--K")  #: there one dash and several are the same
#: ``http://user:password@host``: rejected later, but visible until then.
_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]*@")


def hide_secrets() -> None:
    """Mask secrets in this process's command line; without any, leave it as it is."""
    masked = mask(sys.orig_argv)
    if masked != sys.orig_argv:
        # It overwrites memory, also of the environment: only if necessary.
        from setproctitle import getthreadtitle, setproctitle, setthreadtitle

        name = getthreadtitle()
        setproctitle(" ".join(masked))
        setthreadtitle(name)  # pgrep looks for it


def show_as_worker() -> None:
    """Show a local worker as ``ssbench-worker`` in ps and pgrep."""
    from setproctitle import setproctitle, setthreadtitle

    setproctitle(" ".join(["ssbench-worker", *sys.argv[1:]]))
    setthreadtitle("ssbench-worker")


def mask(words: Sequence[str]) -> list[str]:
    """The words of a command line without the values of secret options.

    Misspelt options are masked as well, if they might mean a secret one.
    """
    found = []
    value_is_next = False
    # None of these is secret.
    known = {*_OF_EVERY_PROGRAM, *(flag for option in WORKER for flag in option.flags)}
    variants = ("--a", "--b") if "ab" in words else ()  # which have options as their value
    options_are_next = False
    for word in words:
        head = next((f"{flag}=" for flag in variants if word.startswith(f"{flag}=")), "")
        if options_are_next or head:
            head = "" if options_are_next else head
            found.append(head + _mask_variant(word[len(head) :]))
            options_are_next = False
            continue
        options_are_next = word in variants
        if options_are_next:
            found.append(word)
            continue
        if value_is_next:
            found.append(MASK)
            value_is_next = False
            continue
        shown = word
        if word.startswith("-") and word.partition("=")[0] not in known:
            letters, long = _secret_flags()
            if "nectar" in words:
                letters, long = [*letters, *_NECTAR], [*long, *_NECTAR_LONG]
            shown, value_is_next = _mask_option(word, letters, long)
        found.append(_USER_IN_URL.sub(f"{MASK}@", shown))
    return found


def _mask_variant(text: str) -> str:
    """The options of a variant, which are one word."""
    try:
        words = shlex.split(text)
    except ValueError:  # no closing quotation
        return MASK
    masked = mask(words)
    return text if masked == words else shlex.join(masked)


def _mask_option(word: str, letters: Sequence[str], long: Sequence[str]) -> tuple[str, bool]:
    """A word with its secret masked, and whether the next word is a secret."""
    if word.startswith("--"):
        name, equals, _ = word.partition("=")
        plain = f"--{name.lstrip('-').replace('_', '-')}"
        if len(plain) < 3 or not any(flag.startswith(plain) for flag in long):
            return word, False
        return (f"{name}={MASK}", False) if equals else (word, True)
    if word.startswith("-"):
        # ``-Ksecret``, and ``-vKsecret`` too.
        places = [place for place in (word.find(letter) for letter in letters) if place > 0]
        if places:
            end = min(places) + 1
            return (word[:end] + MASK, False) if word[end:] else (word, True)
    return word, False


@cache
def _secret_flags() -> tuple[Sequence[str], Sequence[str]]:
    """Letters, and long options."""
    from ssbench.cli.options import STORE_OPTIONS  # loads slowly; no worker needs it

    flags = [flag for option in STORE_OPTIONS if option.secret for flag in option.flags]
    long = [flag for flag in flags if flag.startswith("--")]
    return [flag[1] for flag in flags if flag not in long], long
