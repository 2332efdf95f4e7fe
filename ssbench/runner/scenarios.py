"""Scenarios by name: files, and the canned ones that ship with ssbench."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import ssbench
from ssbench.core.errors import UsageError
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.text import close_matches, printable
from ssbench.host.files import read_bytes

if TYPE_CHECKING:
    from importlib.abc import Traversable

#: In the order that list-scenarios shows; a test compares it with the files.
CANNED = (
    "very_small",
    "small",
    "medium",
    "large",
    "huge",
    "zero_byte",
    "put_only",
    "get_only",
    "delete_only",
    "all_operations",
    "webdav_load",
    "webdav_volume",
    "webdav_stress",
)
SUFFIX = ".scenario"
#: Names of such scenarios in ssbench 0.3.9 and its documents -> ours.
OLD_NAMES = {
    "very_small_test": "very_small",
    "very_small_test_scenario": "very_small",
    "demo_test": "very_small",
    **{f"{size}_test": size for size in ("small", "medium", "large", "huge")},
    **{f"{size}_test_scenario": size for size in ("small", "medium", "large", "huge")},
    "zero_byte_upload": "zero_byte",
}
PACKAGE = "ssbench.scenarios"


class ScenarioText(NamedTuple):
    """A scenario that was not parsed yet."""

    text: bytes
    source: str  #: what error messages call it
    note: str = ""  #: something that the user should know of it


def find_scenario(argument: str) -> ScenarioText:
    """The text of a scenario file, or of a canned scenario.

    Files come first. A canned scenario is named with or without ``.scenario`` and ``scenarios/``
    around its name, or by its name in ssbench 0.3.9. Of a file, at most a byte more is read than
    a scenario may have.

    :raises UsageError: there is neither, or the file can't be read.
    """
    text = _read_file(argument)
    if text is not None:
        return ScenarioText(text, argument)
    old = name = argument.removeprefix("./").removeprefix("scenarios/").removesuffix(SUFFIX)
    note = ""
    if name.lower() in OLD_NAMES:
        name = OLD_NAMES[name.lower()]
        note = (
            f"{old}: a name of ssbench 0.3.9; this runs the canned scenario {name}, whose sizes "
            "and counts differ from the old one's"
        )
    if name in CANNED:
        return ScenarioText(_canned_bytes(name), f"{name}{SUFFIX}", note)
    if os.path.isdir(argument):
        raise UsageError(f"{printable(argument)}: a folder; give a scenario file")
    near = close_matches(name, [*CANNED, *OLD_NAMES])
    folder, wanted = os.path.split(argument)
    with suppress(OSError, ValueError):
        with os.scandir(folder or ".") as entries:
            files = [entry.name for entry in entries if entry.is_file()]
        files = close_matches(wanted, files)
        near = [os.path.join(folder, each) for each in files] or near
    meant = f"did you mean {printable(OLD_NAMES.get(near[0], near[0]))}? " if near else ""
    raise UsageError(
        f"{printable(argument) or '(empty)'}: no such file or canned scenario; "
        f"{meant}canned scenarios: {', '.join(CANNED)}"
    )


def list_canned() -> list[tuple[str, Scenario]]:
    """Name and scenario of each canned one, in the order to show them."""
    return [(name, Scenario.from_json(_canned_bytes(name), name + SUFFIX)) for name in CANNED]


def _read_file(path: str) -> bytes | None:
    """None if there is no such file. A folder "medium" does not hide the canned scenario."""
    return read_bytes(path) if os.path.lexists(path) and not os.path.isdir(path) else None


def _canned_bytes(name: str) -> bytes:
    return _folder().joinpath(name + SUFFIX).read_bytes()


def _folder() -> Traversable:
    """The scenarios of the installed package, or those of a checkout."""
    from importlib import resources  # loads slowly, and a file needs none

    try:
        return resources.files(PACKAGE)
    except ModuleNotFoundError:
        return Path(ssbench.__file__).resolve().parent.parent / "scenarios"
