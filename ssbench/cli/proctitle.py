"""What the process list shows of us: no password, and local workers by their name.

Anyone on the host can read a command line (``ps``, /proc/PID/cmdline). Between our start and this
there is a moment in which the secret is there to be read, so a file or the environment is better.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from ssbench.cli.store_options import STORE_OPTIONS

MASK = "********"
#: ``http://user:password@host``: refused later on, but it would be there until then.
_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]*@")


def hide_secrets() -> None:
    """Show our command line with secrets masked; as it was, where there are none in it."""
    masked = mask(sys.orig_argv)
    if masked != sys.orig_argv:
        # It overwrites memory, that of our environment too: only where it must be.
        from setproctitle import getthreadtitle, setproctitle, setthreadtitle

        name = getthreadtitle()
        setproctitle(" ".join(masked))
        setthreadtitle(name)  # what pgrep looks for stays as it was


def show_as_worker() -> None:
    """Show a worker that a master started as ``ssbench-worker``, to ps and pgrep."""
    from setproctitle import setproctitle, setthreadtitle

    setproctitle(" ".join(["ssbench-worker", *sys.argv[1:]]))
    setthreadtitle("ssbench-worker")


def mask(words: Sequence[str]) -> list[str]:
    """The words of a command line without the values of secret options.

    Rather a word too many than one too few: what a misspelt option means is not known.
    """
    found = []
    value_is_next = False
    for word in words:
        if value_is_next:
            found.append(MASK)
            value_is_next = False
        else:
            shown, value_is_next = _mask_option(word)
            found.append(_USER_IN_URL.sub(f"{MASK}@", shown))
    return found


def _mask_option(word: str) -> tuple[str, bool]:
    """A word without a secret in it, and whether the next one is a secret."""
    if word.startswith("--"):
        name, equals, _ = word.partition("=")
        if len(name) < 3 or not any(flag.startswith(name.replace("_", "-")) for flag in _LONG):
            return word, False
        return (f"{name}={MASK}", False) if equals else (word, True)
    if word.startswith("-"):
        # ``-Ksecret``, and ``-vKsecret`` too.
        places = [place for place in (word.find(letter) for letter in _LETTERS) if place > 0]
        if places:
            end = min(places) + 1
            return (word[:end] + MASK, False) if word[end:] else (word, True)
    return word, False


_FLAGS = [flag for option in STORE_OPTIONS if option.secret for flag in option.flags]
_LONG = [flag for flag in _FLAGS if flag.startswith("--")]
_LETTERS = [flag[1] for flag in _FLAGS if not flag.startswith("--")]
