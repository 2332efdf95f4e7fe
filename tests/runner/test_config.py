"""Which values of a run exclude each other, and what follows from the others."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from typing import Any

import pytest

from ssbench.core.errors import UsageError
from ssbench.core.hostlist import parse_hosts
from ssbench.core.model import Group
from ssbench.runner import resolve
from ssbench.runner.config import RunConfig, ScenarioText
from ssbench.runner.results import parse_thresholds
from ssbench.storage.options import StoreOptions

HOSTS = parse_hosts("a:2,b")
NOOP = {"store": StoreOptions("noop")}


def config(**given: Any) -> RunConfig:
    return RunConfig(**{"scenario": ScenarioText(b"", "x"), "store": StoreOptions("file"), **given})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"workers": 3, "expect_workers": 2},
         "--expect-workers 2 is fewer than the 3 of --workers, which"),
        ({"ssh_workers": HOSTS, "expect_workers": 2}, "fewer than the 3 of --ssh-workers, which"),
        ({"workers": 1, "ssh_workers": HOSTS, "expect_workers": 3},
         "fewer than the 4 of --workers and --ssh-workers, which"),
        ({"expect_workers": 20_000}, "20,000 workers are more than a master can have (2,048)"),
        ({"workers": 2049}, "2,049 workers are more than a master can have"),
        ({"ssh_workers": HOSTS, "store": None}, "can't reach the store of --embedded-swift"),
        ({"source_addresses": ["127.0.0.1"], "ssh_workers": HOSTS},
         "--source-address is for the workers of --workers"),
        ({"existing": "c", **NOOP}, "--existing has nothing to read with --noop"),
        ({"existing": "c", "verify": True}, "--existing with --verify"),
        ({"stats_file": "-"}, "standard output is for the report"),
        ({"verify": True, **NOOP}, "--verify has nothing to check with --noop"),
        ({"thresholds": parse_thresholds(["errors < 1%", "throughput > 1MB/s"]), **NOOP},
         "there is no throughput"),
    ],
)  # fmt: skip
def test_values_that_exclude_each_other_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        config(**given)
    assert says in str(caught.value)


SCENARIO = {
    "name": "x", "user_count": 1, "operation_count": 1, "crud_profile": [1, 1, 1, 1],
    "sizes": [{"name": "tiny", "size": 1}], "initial_files": {"tiny": 1},
}  # fmt: skip


@pytest.mark.parametrize(
    ("given", "own", "says"),
    [
        ({"abort_window_s": 5}, ["throughput > 1B/s"], "a --threshold that it can watch"),
        ({"abort_window_s": 5, "thresholds": parse_thresholds(["throughput > 1MB/s"])}, [],
         "--abort-on-threshold needs a --threshold that it can watch"),
        ({"abort_window_s": 5}, ["errors < 1%"], ""),
        (NOOP, ["errors < 1%", "throughput > 1MB/s"], "x: thresholds: with --noop nothing"),
        ({}, ["errors < 1%", "p99(READ) < 5"],
         'x: thresholds[1] "p99(READ) < 5": character 14: p99 needs a unit'),
        ({}, ["p99(tny) < 5s"], 'x: thresholds[0]: threshold p99(tny) < 5s: the scenario has no'),
        ({}, ["response_p99 < 5s"], "x: thresholds[0]: threshold response_p99 < 5s: a closed loop"),
        ({}, "p99 < 5s", 'x: thresholds: "p99 < 5s" is a string; a list like ["p99(READ) < 50ms"'),
    ],
)  # fmt: skip
def test_thresholds_of_the_scenario_are_checked_before_a_run(
    given: dict[str, Any], own: object, says: str
) -> None:
    text = json.dumps({**SCENARIO, "thresholds": own}).encode()
    with pytest.raises(UsageError, match=re.escape(says)) if says else nullcontext():
        resolve(config(scenario=ScenarioText(text, "x"), **given))


def test_a_wrong_threshold_of_the_scenario_is_told_with_its_other_errors() -> None:
    text = json.dumps({**SCENARIO, "user_cuont": 1, "thresholds": ["p99(READ) < 5"]}).encode()
    with pytest.raises(UsageError) as caught:
        resolve(config(scenario=ScenarioText(text, "x")))
    assert [line.split(";")[0] for line in str(caught.value).splitlines()] == [
        "x: user_cuont: unknown key",
        'x: thresholds[0] "p99(READ) < 5": character 14: p99 needs a unit',
    ]


def test_users_are_shared_by_the_workers_that_can_take_part() -> None:
    made = config(workers=4)
    assert [made.users_each(users) for users in (1, 4, 5, 8, 9)] == [1, 1, 2, 2, 3]
    few = Group("few", users=2, profile=())
    assert made.users_each(9, [few, Group("many", users=7, profile=())]) == 5
