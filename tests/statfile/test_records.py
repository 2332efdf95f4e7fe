from __future__ import annotations

from types import MappingProxyType
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.columns import RESULT_SCHEMAS
from ssbench.core.cpu_profile import CpuProfile
from ssbench.core.errors import MessageError, StatFileError
from ssbench.core.model import NONE_NS, Phase, Result
from ssbench.core.records import (
    ProfileRecord,
    Record,
    ResultBatch,
    RunHeader,
)
from ssbench.statfile.format import (
    FORMAT,
    RECORD_TYPES,
    Decoder,
    UnknownRecordError,
    encode_record,
    encode_results,
    encode_schema,
    objects,
)
from tests.fakes.batches import result_rows
from tests.fakes.values import any_of, boolean, finite, int64, none, scripted, text
from tests.statfile.samples import FOOTER, HEADER, PHASE, packed, result

TEXT = st.text(max_size=20)
WHOLE = st.integers(-(2**63), 2**63 - 1)
COUNT = st.integers(0, 2**63 - 1)
NUMBER = st.floats(-1e18, 1e18)
JSON = scripted(any_of(none, boolean, int64, finite, text, key=text), 60)
#: A field's annotation -> values for it.
VALUES: dict[str, Any] = {
    "str": TEXT,
    "bool": st.booleans(),
    "int": WHOLE,
    "int | None": st.none() | WHOLE,
    "Whole": COUNT,
    "Whole | None": st.none() | COUNT,
    "Finite": NUMBER,
    "Finite | None": st.none() | NUMBER,
    "Phase": st.sampled_from(Phase),
    "Mapping[str, Any]": st.dictionaries(TEXT, JSON, max_size=4),
    "Mapping[str, str]": st.dictionaries(TEXT, TEXT, max_size=4),
    "Mapping[str, Whole]": st.dictionaries(TEXT, COUNT, max_size=4),
    "Mapping[str, Finite]": st.dictionaries(TEXT, NUMBER, max_size=4),
    "tuple[str, ...]": st.lists(TEXT, max_size=4).map(tuple),
    "tuple[Any, ...]": st.lists(JSON, max_size=4).map(tuple),
}
COLD: Any = st.sampled_from(list(RECORD_TYPES.values())).flatmap(
    lambda cls: st.builds(cls, **{name: VALUES[kind] for name, kind in cls.__annotations__.items()})
)
ROWS = st.lists(
    st.builds(
        result,
        st.integers(1, 2**40),
        start_ns=st.integers(0, 2**60),
        last_byte_ns=st.integers(NONE_NS, 2**50),
        transaction_id=st.binary(max_size=40).filter(lambda text: b"\n" not in text),
        detail=TEXT,
    ),
    min_size=1,
    max_size=20,
)


def unpacked(data: bytes) -> tuple[list[Any], list[str]]:
    said: list[str] = []
    return list(objects([data], said.append)), said


@given(COLD)
def test_a_record_round_trips(record: Record) -> None:
    [item], said = unpacked(encode_record(record))
    assert Decoder().decode(item) == record
    assert not said


@given(ROWS, st.sampled_from(Phase), st.integers(0, 300), st.integers(0, 9))
def test_a_batch_round_trips(rows: list[Result], phase: Phase, worker: int, number: int) -> None:
    data = encode_schema(number, RESULT_SCHEMAS[0])
    data += encode_results(phase, worker, number, packed(rows))
    [schema, item], _ = unpacked(data)
    decoder = Decoder()
    assert decoder.decode(schema) is None
    batch = decoder.decode(item)
    assert batch == ResultBatch.of_rows(phase, worker, rows)
    assert isinstance(batch, ResultBatch)
    assert result_rows(batch) == rows


@pytest.mark.parametrize(
    "schema",
    [[8], [8, 0], [8, "0", []], [8, 0, {}], [8, 0, [1]], [8, 0, [["a"]]], [8, 0, [["a", 1]]],
     [8, 0, [["a" * 65, "int"]]], [8, 0, [["a", "int"], ["a", "int"]]],
     [8, 0, [[str(n), "int"] for n in range(65)]]],
)  # fmt: skip
def test_malformed_schemas_are_rejected(schema: list[Any]) -> None:
    decoder = Decoder()
    with pytest.raises(MessageError):
        decoder.decode(schema)
    with pytest.raises(MessageError, match="unknown schema"):
        decoder.decode([9, 2, 0, 0, packed([result(1)])])


def test_other_mappings_and_sequences_are_written_too() -> None:
    header = RunHeader("r", 1.0, "1", MappingProxyType({"a": (1, 2)}), {}, {}, 1, "noop")
    [item], _ = unpacked(encode_record(header))
    decoded = Decoder().decode(item)
    assert isinstance(decoded, RunHeader)
    assert decoded.scenario_given == {"a": [1, 2]}
    with pytest.raises(MessageError, match="can't hold a object"):
        encode_record(RunHeader("r", 1.0, "1", {"a": object()}, {}, {}, 1, "noop"))


def test_fields_may_be_added_and_those_with_a_default_missing() -> None:
    [[code, values]], _ = unpacked(encode_record(FOOTER))
    assert Decoder().decode([code, values | {"colour": "red"}]) == FOOTER
    del values["left_behind"]
    assert Decoder().decode([code, values]) == FOOTER
    del values["ended"]
    with pytest.raises(MessageError, match="RunFooter: Object missing required field `ended`"):
        Decoder().decode([code, values])


def test_unknown_kinds_are_distinguished_from_damage() -> None:
    with pytest.raises(UnknownRecordError):
        Decoder().decode([99, "new", "things"])
    for rubbish in (
        None,
        [],
        {},
        ["a"],
        [True],
        [1],
        [1, []],
        [3, 2, 0, []],
        [3, 2, 0, b""],
        [9, 2, 0, 0, b""],
    ):
        with pytest.raises(MessageError):
            Decoder().decode(rubbish)


def test_a_header_of_a_later_version_is_an_error() -> None:
    [[code, values]], _ = unpacked(encode_record(HEADER))
    with pytest.raises(StatFileError, match="newer"):
        Decoder().decode([code, values | {"format": FORMAT + 1}])


def test_an_object_above_the_limit_is_rejected() -> None:
    items, said = unpacked(msgpack.packb(bytes(40 << 20)))
    assert not items
    assert said


def test_a_scenario_nested_too_deeply_is_rejected() -> None:
    deep: Any = []
    for _ in range(100):
        deep = [deep]
    [[code, values]], _ = unpacked(encode_record(HEADER))
    with pytest.raises(MessageError, match="too deep"):
        Decoder().decode([code, values | {"scenario": {"a": deep}}])


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -1e300, 1 << 63])
def test_an_unusable_number_is_rejected(number: float) -> None:
    [[code, values]], _ = unpacked(encode_record(PHASE))
    with pytest.raises(MessageError, match="PhaseRecord: Expected `float`"):
        Decoder().decode([code, values | {"started_at": number}])


def test_a_profile_of_any_depth_is_read_back() -> None:
    deep = {f"{'function (module.py:1);' * calls}leaf": calls for calls in (1, 169, 170, 171, 5000)}
    profile = CpuProfile.of(deep, 5, 6)
    record = ProfileRecord(0, profile.stacks, profile.samples, profile.overhead_ns)
    (item,) = objects([encode_record(record)], pytest.fail)
    assert Decoder().decode(item) == record
