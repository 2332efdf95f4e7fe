"""Options as Go's package flag parses them, of the programs whose command lines ssbench takes.

One dash, ``-name value`` or ``-name=value``, and ``-name`` alone for a switch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ssbench.core.errors import UsageError
from ssbench.core.option import Option

TRUE = ("1", "t", "true")
_LONGEST_NAME = 32


def own_words(
    words: Sequence[str], known: Collection[str], switches: Collection[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """The options of ssbench among the leading options, and the other words.

    Those have two dashes, as ``--name`` or ``--name=value``. Go's package flag takes two dashes as
    one, so what it knows is its own.
    """
    own: list[str] = []
    rest: list[str] = []
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at].strip("-"):
        name, equals, _ = words[at].lstrip("-").partition("=")
        if words[at].startswith("--") and name not in known:
            own.append(words[at])
            at += 1
        else:
            end = at + (1 if equals or name in switches else 2)
            rest += words[at:end]
            at = end
    return own, [*rest, *words[at:]]


def parse_flags(
    words: Sequence[str], known: Collection[str], switches: Collection[str], command: str
) -> tuple[dict[str, list[str]], Sequence[str]]:
    """Options as Go's package flag has them, each with its values in their order, and the words
    behind them.

    :raises UsageError: an option is unknown, or has no value.
    """
    found: dict[str, list[str]] = {}
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        if words[at] == "--":
            at += 1
            break
        name, equals, value = words[at].lstrip("-").partition("=")
        if name not in known:
            is_secret = name[:1] in ("K", "P")  # -Ksecret
            is_name = len(name) <= _LONGEST_NAME and name.isprintable() and not is_secret
            shown = name if is_name else "..."
            options = ", ".join(f"-{each}" for each in known)
            raise UsageError(f"{command}: unknown option -{shown}; it has {options}")
        at += 1
        if not equals and name in switches:
            value = "true"
        elif not equals:
            if at == len(words):
                raise UsageError(f"{command}: -{name} has no value")
            value = words[at]
            at += 1
        found.setdefault(name, []).append(value)
    return found, words[at:]


def check_values(
    given: Mapping[str, Sequence[str]],
    flags: Mapping[str, str],
    rows: Sequence[Option],
    command: str,
) -> None:
    """Check the last value of each option as the option of ours that it becomes does.

    :param flags: option -> flag of one of the rows; "": none.
    :raises UsageError: one is not valid; the message has the name that the user gave.
    """
    for name, flag in flags.items():
        if flag and name in given:
            row = next(each for each in rows if flag in each.flags)
            try:
                row.value(given[name][-1])
            except UsageError as error:
                raise UsageError(f"{command}: -{name}: {error}") from error
