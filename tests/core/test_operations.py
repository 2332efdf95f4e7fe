"""The table of operations."""

from __future__ import annotations

import ast
from pathlib import Path
from random import Random

import msgpack
import pytest

import ssbench
from ssbench.core import operations
from ssbench.core.model import ErrorKind, Phase
from ssbench.core.operations import (
    OPERATIONS,
    RECEIVING,
    Body,
    Effect,
    NotFound,
    Operation,
    Target,
)

PACKAGE = Path(ssbench.__file__).parent
#: Who may name operations: their table, drivers, the reader of 0.3.9's files, the commands that
#: users call by these words or that try one of each, translations of other tools' words, and a
#: client of HTTP's POST.
MAY_NAME = (
    "core/operations.py", "statfile/legacy.py", "storage/", "embedded/",
    "cli/commands.py", "cli/options.py", "commands/bench/settings.py", "commands/doctor.py",
    "commands/files/", "commands/replay/conversions.py", "commands/transfer/settings.py",
)  # fmt: skip
#: Words with another meaning, too: a function of the API, and sizes given by a list.
OTHER_MEANINGS = {"read", "list"}


def test_nothing_but_the_table_drivers_and_the_old_reader_names_an_operation() -> None:
    rows = OPERATIONS.values()
    names = {name for row in rows for name in (row.name, row.alias) if name}
    words = names | {name.lower() for name in names} - OTHER_MEANINGS
    found = [
        f"{path}:{node.lineno}: {word}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not str(path.relative_to(PACKAGE)).startswith(MAY_NAME)
        for node in ast.walk(ast.parse(path.read_bytes()))
        for word in words_of(node)
        if word in words
    ]
    assert found == []
    assert [each for each in MAY_NAME if not (PACKAGE / each).exists()] == []


def words_of(node: ast.AST) -> list[str]:
    """The names and literals of a node that could tell one operation from another."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
        value = node.value
        return [value if isinstance(value, str) else value.decode("latin-1")]
    if isinstance(node, ast.ImportFrom) and node.module == "ssbench.core.operations":
        return [alias.name for alias in node.names]
    if isinstance(node, ast.Attribute) and node.attr.isupper():
        return [node.attr]
    return [node.id] if isinstance(node, ast.Name) and node.id.isupper() else []


@pytest.fixture
def _table_as_before():  # type: ignore[no-untyped-def]
    rows, receiving = dict(OPERATIONS), set(RECEIVING)
    yield
    OPERATIONS.clear()
    OPERATIONS.update(rows)
    RECEIVING.clear()
    RECEIVING.update(receiving)


@pytest.mark.parametrize("row", OPERATIONS.values(), ids=lambda row: row.name)
def test_rows_are_consistent(row: Operation) -> None:
    assert OPERATIONS[int(row)] is row
    assert operations.row_of(int(row)) is row
    assert row.name == row.name.upper()
    assert len(row.progress) == 4
    # What creates or replaces sends content, unless the store copies it; what only reads can't be
    # undecided.
    assert row.changes_content == (row.effect not in (Effect.NONE, Effect.TOUCHES))
    changing = (Effect.CREATES, Effect.CONTESTS, Effect.REPLACES)
    writes = row.effect in changing and row.target is not Target.PAIR
    assert writes == (row.body is Body.SENT)
    assert {row.set_key} <= {"", *(each.key for each in row.parameters)}
    if row.draw:
        drawn = row.draw(Random(1), 100, **row.parameter_values({}))
        assert len(drawn) == len(row.arguments)
    assert (row in RECEIVING) == (row.body in (Body.RECEIVED, Body.ENTRIES))
    if row.not_found is NotFound.SUCCESS:
        assert row.effect is Effect.REMOVES


@pytest.mark.parametrize("row", OPERATIONS.values(), ids=lambda row: row.name)
def test_a_row_round_trips_through_a_stat_file(row: Operation) -> None:
    again = Operation.from_map(msgpack.unpackb(msgpack.packb(row.to_map())))
    assert again == row
    assert again.to_map() == row.to_map()


def test_rows_of_a_file_override_those_of_this_process() -> None:
    peek = Operation(300, "PEEK", Effect.NONE, body=Body.RECEIVED)
    changed = {**operations.READ.to_map(), "progress": "1234"}
    hostile = [7, {}, {"number": -1, "name": "X"}, {"number": 8, "name": "\x1b[2J"},
               {"number": 301, "name": "READ"}]  # fmt: skip
    rows = operations.rows_of([peek.to_map(), changed, *hostile])
    assert rows.keys() == OPERATIONS.keys() | {300}
    assert operations.row_of(300, rows).body is Body.RECEIVED
    assert rows[operations.READ].progress == "1234"
    assert operations.operation_named("peek", rows) == peek


@pytest.mark.parametrize("effect", [Effect.REPLACES, Effect.REMOVES, Effect.TOUCHES])
@pytest.mark.parametrize("target", [Target.PAIR, Target.CONTAINER])
def test_an_effect_that_the_target_excludes_is_rejected(target: Target, effect: Effect) -> None:
    with pytest.raises(ValueError, match=target.value):
        Operation(300, "ODD", effect, target=target)


@pytest.mark.usefixtures("_table_as_before")
def test_a_driver_s_module_can_add_a_row() -> None:
    row = operations.register(Operation(200, "PEEK", Effect.NONE, body=Body.RECEIVED))
    assert operations.operation_named("peek") is row
    assert 200 in RECEIVING


@pytest.mark.usefixtures("_table_as_before")
@pytest.mark.parametrize(("number", "name"), [(0, "OTHER"), (201, "READ")])
def test_a_number_or_name_in_use_is_rejected(number: int, name: str) -> None:
    with pytest.raises(ValueError, match="has that number or name"):
        operations.register(Operation(number, name, Effect.NONE))


def test_an_invalid_name_is_rejected() -> None:
    with pytest.raises(ValueError, match="capitals"):
        operations.register(Operation(201, "no word", Effect.NONE))


def test_enum_numbers_in_stat_files_are_stable() -> None:
    assert {operation.name: int(operation) for operation in OPERATIONS.values()} == {
        "CREATE": 0, "READ": 1, "UPDATE": 2, "DELETE": 3, "ENSURE": 4, "REMOVE": 5,
        "HEAD": 6, "POST": 7, "LIST": 8, "COPY": 9, "RANGE_READ": 10, "BULK_DELETE": 11,
        "LIST_ALL": 12, "LIST_RANDOM": 13, "PUT_TAGS": 14, "GET_TAGS": 15,
        "CREATE_IF_ABSENT": 16, "UPDATE_IF_MATCH": 17, "READ_VERSION": 18, "DELETE_VERSION": 19,
    }  # fmt: skip
    assert [phase.name for phase in Phase] == ["IDLE", "POPULATE", "RUN", "CLEANUP"]
    assert [int(kind) for kind in ErrorKind] == list(range(len(ErrorKind)))
    assert [kind.name for kind in ErrorKind][:5] == [
        "NONE", "STATUS", "CONNECT", "CONNECT_TIMEOUT", "NETWORK_TIMEOUT",
    ]  # fmt: skip
