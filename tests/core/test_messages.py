"""Messages come back as they went, and no bytes whatsoever do harm."""

from __future__ import annotations

import math
import tracemalloc
from contextlib import suppress
from typing import Any, get_args

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.errors import MessageError, ProtocolError
from ssbench.core.messages import (
    MAX_MESSAGE_BYTES,
    MAX_NUMBERS,
    MAX_TEXT,
    PROTOCOL,
    SECRET_BYTES,
    Ack,
    Addresses,
    Bye,
    ControlState,
    Expired,
    Heartbeat,
    Hello,
    Host,
    Jobs,
    Leaving,
    Message,
    Network,
    NetworkCheck,
    NetworkInterval,
    NetworkResult,
    Profiled,
    Ready,
    Results,
    Returned,
    decode,
    encode,
    is_sealed,
    pack,
    unpack,
)
from tests.corpus import recorded
from tests.fakes import values

natural = st.integers(0, 2**63 - 1)
clock = st.integers(-(2**62) + 1, 2**62 - 1)
span_ns = st.integers(0, 2**62 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
naturals = st.lists(natural, max_size=5)
plain = values.scripted(
    values.any_of(
        values.none, values.boolean, values.msgpack_integer, values.text, values.binary,
        key=values.text,
    ),
    60,
)  # fmt: skip
shares = st.dictionaries(natural, st.tuples(natural, st.none() | clock), max_size=3)
schemas = st.lists(
    st.dictionaries(text, text, max_size=4).map(lambda kinds: tuple(kinds.items())), max_size=3
).map(tuple)
span = st.floats(0, 1e6, allow_nan=False)
intervals = st.lists(st.builds(NetworkInterval, span, natural, st.none() | span), max_size=3)
network_results = st.builds(NetworkResult, st.lists(span, max_size=3), intervals, intervals)

ANY_MESSAGE: dict[type, st.SearchStrategy[Message]] = {
    Hello: st.builds(
        Hello, natural, natural, text, natural, text, natural, text, schemas, natural,
        st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES),
    ),
    Heartbeat: st.builds(
        Heartbeat, natural, natural, clock, span_ns, span_ns, natural, natural,
        clock,
        st.dictionaries(natural, natural, max_size=4),
    ),
    Ready: st.builds(Ready, natural, text, natural, st.booleans(), st.none() | clock),
    Host: st.builds(
        Host, natural, clock, text, st.dictionaries(text, st.floats(0, 1e18), max_size=4)
    ),
    Ack: st.builds(Ack, natural, text, naturals),
    Results: st.builds(Results, natural, text, natural, naturals, st.binary(max_size=50), natural),
    Returned: st.builds(Returned, natural, text, naturals),
    Expired: st.builds(Expired, natural, natural),
    Leaving: st.builds(Leaving, natural),
    Bye: st.builds(Bye, natural, text),
    Network: st.builds(Network, natural, natural, st.none() | network_results, text),
    Jobs: st.builds(Jobs, text, natural, natural, clock, st.binary(max_size=50), natural),
    ControlState: st.builds(
        ControlState, natural, natural, clock, text, natural, clock, shares,
        st.dictionaries(natural, text, max_size=3), st.dictionaries(text, plain, max_size=4),
        span, span, natural, *[st.booleans()] * 3, span, span,
        st.dictionaries(natural, naturals, max_size=3), schemas, *[st.booleans()] * 2,
        st.none() | st.builds(NetworkCheck, natural, natural, text, natural, span, natural, span),
    ),
    Addresses: st.builds(Addresses, natural, text, natural, st.lists(text, max_size=3).map(tuple)),
    Profiled: st.builds(
        Profiled, natural, text, st.dictionaries(text, span_ns, max_size=4), natural, span_ns
    ),
}  # fmt: skip
any_message = st.one_of(*ANY_MESSAGE.values())


SEAL = bytes(8)  #: of the length of one


def test_every_type_of_message_is_tried() -> None:
    assert set(ANY_MESSAGE) == set(get_args(Message))


def test_frames_of_every_type_were_recorded() -> None:
    assert {type(decode(data)) for data in recorded("frames")} == set(ANY_MESSAGE)


def test_decoding_a_long_message_uses_bounded_memory() -> None:
    """8 MB of empty lists would be half a gigabyte; arrays within arrays take as long to free."""
    size = MAX_MESSAGE_BYTES - 100
    for bomb in (
        b"\xdd" + size.to_bytes(4, "big") + b"\x90" * size,
        b"\xdc\xff\xff" * 400 + b"\x80" * size,
        b"\xdd\x00\x7f\xff\xff" * 500 + b"\x01" * size,
        b"\x92" + (b"\xdc\xff\xff" + b"\x90" * 0xFFFF) * 100,
    ):
        tracemalloc.start()
        try:
            with pytest.raises(MessageError):
                decode(bomb[:MAX_MESSAGE_BYTES])
            assert tracemalloc.get_traced_memory()[1] < 100e6
        finally:
            tracemalloc.stop()


def test_a_long_message_of_ours_is_read() -> None:
    control_state = next(m for m in map(decode, recorded("frames")) if isinstance(m, ControlState))
    crowd = control_state._replace(workers={number << 40: (9, None) for number in range(30_000)})
    assert len(encode(crowd)) > 300_000
    for message in (crowd, Returned(5, "r", list(range(70_000, 70_000 + MAX_NUMBERS)))):
        assert encode(decode(encode(message))) == encode(message)


@pytest.mark.parametrize(
    "extension",
    [b"\xc7\x00\x05", b"\xd4\x05x", b"\xd6\xff" + bytes(4)],
    ids=["empty", "own", "time"],
)
def test_no_extension_type_is_unpacked(extension: bytes) -> None:
    for data in (extension, b"\x91" + extension, b"\x81\xa1a" + extension):
        with pytest.raises(MessageError):
            unpack(data)


def test_a_key_of_a_map_has_at_most_4096_characters() -> None:
    assert unpack(pack({"k" * 4096: 1})) == {"k" * 4096: 1}
    with pytest.raises(MessageError):
        unpack(pack({"k" * 4097: 1}))


def test_a_name_has_at_most_200_characters() -> None:
    hello = Hello(1, 0, "w" * 200, 1, "h" * 200, 1, "v" * 200)
    assert decode(encode(hello)) == hello
    for field in ("worker_id", "host", "version"):
        with pytest.raises(MessageError, match="length <= 200"):
            decode(encode(hello._replace(**{field: "x" * 201})))


def test_a_message_too_long_is_rejected_undecoded() -> None:
    with pytest.raises(MessageError, match="at most"):
        decode(bytes(MAX_MESSAGE_BYTES + 1))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ([PROTOCOL + 1, "bye", 1, ""], f"protocol {PROTOCOL + 1}; this ssbench speaks {PROTOCOL}"),
        ([True, "bye", 1, ""], "protocol of another kind"),
        (["1", "bye", 1, ""], "protocol of another kind"),
        ([PROTOCOL, "boo", 1, ""], "unknown type"),
        ([PROTOCOL, 5, 1, ""], "unknown type"),
        ([PROTOCOL, ["bye"], 1, ""], "unknown type"),
        ([PROTOCOL, "bye", 1], "length"),
        ([PROTOCOL, "bye", 1, "", SEAL, SEAL], "length"),
        ([PROTOCOL, "bye", 1, "", 1], "bye: no seal"),
        ([PROTOCOL, "bye", 1, "", "x" * 8], "bye: no seal"),
        ([PROTOCOL, "ack", 1, "", [0] * (MAX_NUMBERS + 1), SEAL], "of length <= 16384"),
        ([PROTOCOL, "bye", -1, "", SEAL], r"bye: Expected `int` >= 0 - at `\$\[0\]`"),
        ([PROTOCOL, "bye", True, "", SEAL], "bye: Expected `int`"),
        ([PROTOCOL, "bye", 1, b"", SEAL], "bye: Expected `str`"),
        ([PROTOCOL, "bye", 1, "x" * (MAX_TEXT + 1), SEAL], "bye: Expected `str` of length <= 4096"),
        ([PROTOCOL, "ack", 1, "", [1, -1], SEAL], "ack: Expected `int` >= 0"),
        ([PROTOCOL, "hello", *[1] * 7, [], 1, bytes(SECRET_BYTES), SEAL], "hello: Expected `str`"),
        (
            [PROTOCOL, "heartbeat", 1, 1, 2**63, 0, 0, 0, 0, 0, {}, SEAL],
            "heartbeat: Expected `int`",
        ),
        ([PROTOCOL, "heartbeat", 1, 1, 0, 0, 0, 0, 0, 0, {1: -1}, SEAL], "heartbeat: Expected"),
        (
            [PROTOCOL, "heartbeat", 1, 1, 0, 0, 0, 0, 0, 0, dict.fromkeys(range(65), 1), SEAL],
            "heartbeat: Expected",
        ),
        ([PROTOCOL, "host", 1, 0, "", {"cpu": math.inf}, SEAL], "host: Expected `float` <= 1e"),
        ([PROTOCOL, "host", 1, 0, "", {"x" * 65: 1.0}, SEAL], "host: Expected `str` of length"),
        ([PROTOCOL], "not an ssbench message"),
        ({"a": 1}, "not an ssbench message"),
        (None, "not an ssbench message"),
    ],
)
def test_malformed_messages_are_rejected_with_a_reason(fields: object, why: str) -> None:
    with pytest.raises(MessageError, match=why):
        decode(msgpack.packb(fields))


NO_LONGER = "Expected `float` <= 1000000000"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        *(
            ({name: 1e10}, NO_LONGER)
            for name in ("timeout_s", "operation_timeout_s", "think_min_s", "think_max_s")
        ),
        ({"network": NetworkCheck(1, 1, "", 1, 1e10, 0, 1.0)}, NO_LONGER),
        ({"network": NetworkCheck(1, 1, "", 1, 1.0, 0, 1e18)}, NO_LONGER),  # no socket takes it
        ({"settings": []}, "settings that are no map"),
    ],
)
def test_a_master_asks_for_no_longer_time_than_an_option_can_be(
    more: dict[str, Any], why: str
) -> None:
    state = ControlState(1, 1, 0, "", 0, 0, {}, {}, {}, 1.0, 0.0, 1, False, False, False)
    with pytest.raises(MessageError, match=f"control: {why}"):
        decode(encode(state._replace(**more)))


@pytest.mark.parametrize("more", [[], ["a field of a later protocol", {"x": 1}]])
def test_a_hello_of_another_protocol_names_the_worker(more: list[object]) -> None:
    def refused(worker: str, host: str, release: str) -> ProtocolError:
        hello = [PROTOCOL + 1, "hello", 5, 0, worker, 4, host, 12, release, *more]
        with pytest.raises(ProtocolError) as caught:
            decode(msgpack.packb(hello))
        return caught.value

    error = refused("w1", "bench-2", "1.1.0")
    assert error.protocol == PROTOCOL + 1
    assert (error.sender, error.release) == ("w1 (bench-2, pid 12)", "1.1.0")
    error = refused("\x1b[2J" * 800, "h\n" * 2000, "v" * 4000)
    assert (error.sender + error.release).isprintable()
    assert len(error.sender) + len(error.release) < 1000


@given(any_message.filter(lambda message: hasattr(message, "incarnation")), st.data())
def test_only_a_worker_s_own_secret_seals_a_message(message: Message, data: st.DataObject) -> None:
    own, other = (data.draw(st.binary(min_size=16, max_size=16)) for _ in range(2))
    sealed = encode(message, own)
    assert is_sealed(sealed, own)
    assert is_sealed(sealed, other) == (own == other)
    at = data.draw(st.integers(0, len(sealed) - 1))
    changed = sealed[:at] + bytes([sealed[at] ^ data.draw(st.integers(1, 255))]) + sealed[at + 1 :]
    with suppress(MessageError):
        decode(changed)
        assert not is_sealed(changed, own)
