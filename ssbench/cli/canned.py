"""Where a scenario comes from: a file, stdin, or one of the canned ones that ship with ssbench."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

import ssbench
from ssbench.cli.console import tell
from ssbench.core.errors import UsageError
from ssbench.core.scenario.jsontext import MAX_BYTES
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.text import printable

if TYPE_CHECKING:
    from importlib.abc import Traversable

#: In the order that list-scenarios shows; a test holds it against the files.
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
)
SUFFIX = ".scenario"
#: Names under which ssbench 0.3.9 and its documents know such scenarios -> ours.
OLD_NAMES = {
    "very_small_test": "very_small",
    "very_small_test_scenario": "very_small",
    "demo_test": "very_small",
    **{f"{size}_test": size for size in ("small", "medium", "large", "huge")},
    **{f"{size}_test_scenario": size for size in ("small", "medium", "large", "huge")},
    "zero_byte_upload": "zero_byte",
}
PACKAGE = "ssbench.scenarios"
_LONGEST_NAME = 64  #: characters; difflib is quadratic


def find_scenario_text(argument: str, stdin: TextIO | BinaryIO) -> tuple[bytes, str]:
    """The text that ``-f argument`` means, and what its faults shall call it.

    ``-`` is stdin. A file of that name comes first; then a canned scenario, with or without
    ``.scenario`` and ``scenarios/`` around its name, or by a name that ssbench 0.3.9 had for it,
    which is told. At most a byte more than a scenario may
    have is read, so that the wrong file (a disk, a dump) is refused and not swallowed.

    :raises UsageError: when there is neither, or the file can't be read.
    """
    if argument == "-":
        return _read_stdin(stdin), "stdin"
    path = Path(argument)
    if _exists(path):
        return _read_file(path), argument
    name = _bare_name(argument)
    if name.lower() in OLD_NAMES:
        old, name = name, OLD_NAMES[name.lower()]
        tell(
            f"{old}: a name of ssbench 0.3.9; this runs the canned scenario {name}, whose sizes "
            "and counts differ from the old one's"
        )
    if name in CANNED:
        return _canned_bytes(name), f"{name}{SUFFIX}"
    if argument and _is_folder(path):
        raise UsageError(f"{printable(argument)}: a folder; give a scenario file")
    near = get_close_matches(name[:_LONGEST_NAME], [*CANNED, *OLD_NAMES], n=1)
    meant = f"did you mean {OLD_NAMES.get(near[0], near[0])}? " if near else ""
    raise UsageError(
        f"{printable(argument) or '(empty)'}: no such file or canned scenario; "
        f"{meant}canned scenarios: {', '.join(CANNED)}"
    )


def list_canned() -> list[tuple[str, Scenario]]:
    """Every canned scenario under its name, in the order to show them."""
    return [(name, Scenario.from_json(_canned_bytes(name), name + SUFFIX)) for name in CANNED]


def _read_stdin(stdin: TextIO | BinaryIO) -> bytes:
    # The bytes, where there are any: their encoding is the scenario's, not the terminal's.
    content: str | bytes = getattr(stdin, "buffer", stdin).read(MAX_BYTES + 1)
    return content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"{printable(str(path))}: can't be read: {why}") from error


def _exists(path: Path) -> bool:
    # "-f medium" beside a folder "medium" means the canned one; a pipe of the shell is a file.
    try:
        return path.exists() and not path.is_dir()
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"{printable(str(path))}: cannot be accessed: {why}") from error
    except ValueError:  # a NUL in it (Python before 3.12)
        return False


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except ValueError:
        return False


def _bare_name(argument: str) -> str:
    return argument.removeprefix("./").removeprefix("scenarios/").removesuffix(SUFFIX)


def _canned_bytes(name: str) -> bytes:
    return _folder().joinpath(name + SUFFIX).read_bytes()


def _folder() -> Traversable:
    """The installed package's scenarios, or those beside a checkout's ``ssbench/``."""
    try:
        return resources.files(PACKAGE)
    except ModuleNotFoundError:
        return Path(ssbench.__file__).resolve().parent.parent / "scenarios"
