"""The keys that change requests: ``headers``, ``keep_alive`` and ``expect_continue``."""

from __future__ import annotations

import json

import pytest

from ssbench.core.errors import ScenarioError
from ssbench.core.operations import CREATE, DELETE, ENSURE, HEAD, OPERATIONS, READ, REMOVE, UPDATE
from ssbench.core.scenario.scenario import Scenario


def read(**keys: object) -> Scenario:
    values = {
        "name": "x", "initial_files": {"a": 1}, "operations": {"read": 1}, "user_count": 1,
        "operation_count": 1, "sizes": [{"name": "a", "size": 1}],
    }  # fmt: skip
    return Scenario.from_json(json.dumps({**values, **keys}), "x")


def test_headers_are_those_of_all_operations_and_of_one() -> None:
    scenario = read(headers={"X-Debug": "1", "get": {"X-Newest": "true", "X-Debug": "2"}})
    lines = dict(scenario.header_lines())
    assert lines[READ] == "X-Debug: 2\r\nX-Newest: true\r\n"
    assert lines[HEAD] == lines[DELETE] == "X-Debug: 1\r\n"
    assert not lines.keys() & {ENSURE, REMOVE}
    assert Scenario.from_json(json.dumps(scenario.to_dict())) == scenario


def test_a_header_of_one_operation_replaces_that_of_all_in_any_order_and_case() -> None:
    scenario = read(headers={"read": {"x-newest": "true"}, "X-Newest": "false"})
    lines = dict(scenario.header_lines())
    assert (lines[READ], lines[HEAD]) == ("x-newest: true\r\n", "X-Newest: false\r\n")


def test_uploads_of_the_run_expect_and_every_request_closes() -> None:
    lines = dict(read(expect_continue=True, keep_alive=False).header_lines())
    assert lines[CREATE] == lines[UPDATE] == "Expect: 100-continue\r\nConnection: close\r\n"
    assert {lines[each] for each in OPERATIONS if each not in (CREATE, UPDATE)} == {
        "Connection: close\r\n"
    }


def test_a_scenario_without_these_keys_has_no_further_lines() -> None:
    scenario = read()
    assert scenario.header_lines() == ()
    assert not scenario.to_dict().keys() & {"headers", "keep_alive", "expect_continue"}


@pytest.mark.parametrize(
    "name",
    [
        "Authorization", "authorization", "Proxy-Authorization", "X-Auth-Token", "x-auth-key",
        "Cookie", "X-Service-Token", "X-Amz-Security-Token", "X-Api-Key", "X-My-Secret", "Password",
        "X-Amz-Server-Side-Encryption-Customer-Key",
    ],
)  # fmt: skip
def test_headers_for_credentials_are_rejected_and_their_value_is_not_repeated(name: str) -> None:
    for headers in ({name: "hunter2"}, {"read": {name: "hunter2"}}):
        with pytest.raises(ScenarioError) as raised:
            read(headers=headers)
        assert str(raised.value).startswith(f'x: headers: "{name}" is for credentials')
        assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("headers", "wrong"),
    [
        (7, "7 is a number; names and values"),
        ({"Host": "x"}, 'ssbench itself sets "Host"; leave it out'),
        ({"X-Object-Meta-Ssbench-Run": "x"}, "ssbench itself sets"),
        ({"x-amz-meta-ssbench-run": "x"}, "ssbench itself sets"),
        ({"X-Amz-Copy-Source": "/other/object"}, "ssbench itself sets"),
        ({"Destination": "/dav/other"}, "ssbench itself sets"),
        ({"Overwrite": "T"}, "ssbench itself sets"),
        ({"X-HTTP-Method-Override": "DELETE"}, "ssbench itself sets"),
        ({"X A": "x"}, '"X A" is no name of a header'),
        ({"X-A": "x\r\nHost: y"}, "is no value of X-A; printable ASCII"),
        ({"X-A": "ä"}, "is no value of X-A"),
        ({"X-A": 1}, "1 is no value of X-A"),
        ({"X-A": "x" * 4097}, "X-A has 4097 characters; at most 4096"),
        ({"X-A": "1", "x-a": "2"}, '"X-A" and "x-a" are one header; leave one'),
        ({"read": {"X-A": "1", "x-a": "2"}}, '"X-A" and "x-a" are one header; leave one'),
        ({"raed": {"X-A": "1"}}, 'there is no operation "raed"; did you mean "read"?'),
    ],
)
def test_an_error_says_which_header_it_is(headers: object, wrong: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        read(headers=headers)
    assert str(raised.value).startswith("x: headers: ")
    assert wrong in str(raised.value)


def test_a_header_of_an_author_is_no_credential() -> None:
    assert dict(read(headers={"X-Object-Meta-Author": "me"}).header_lines())


@pytest.mark.parametrize("key", ["keep_alive", "expect_continue"])
def test_truth_values_are_true_and_false(key: str) -> None:
    with pytest.raises(ScenarioError, match=f"x: {key}: 1 is a number; true or false"):
        read(**{key: 1})
