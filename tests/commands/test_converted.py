"""Workloads of COSBench and command lines of warp as scenarios: what is carried over, and what is
said of the rest."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ssbench.commands.replay.conversions import of_cosbench, of_warp
from ssbench.core.errors import UsageError
from ssbench.core.scenario.scenario import Scenario

#: In the form of the examples that come with COSBench.
WORKLOAD = b"""<?xml version="1.0" encoding="UTF-8" ?>
<workload name="s3 sample" description="reads and writes">
  <storage type="s3" config="accesskey=me;secretkey=hush-hush;endpoint=http://h:9000" />
  <workflow>
    <workstage name="init">
      <work type="init" workers="1" config="cprefix=s3;containers=r(1,2)" />
    </workstage>
    <workstage name="prepare">
      <work type="prepare" workers="1"
            config="cprefix=s3;containers=r(1,2);objects=r(1,10);sizes=c(64)KB" />
    </workstage>
    <workstage name="main">
      <work name="main" workers="8" runtime="30">
        <operation type="read" ratio="80" config="cprefix=s3;containers=u(1,2);objects=u(1,10)" />
        <operation type="write" ratio="20"
                   config="cprefix=s3;containers=u(1,2);objects=u(11,20);sizes=c(64)KB" />
      </work>
    </workstage>
    <workstage name="cleanup">
      <work type="cleanup" workers="1" config="cprefix=s3;containers=r(1,2);objects=r(1,20)" />
    </workstage>
  </workflow>
</workload>
"""


def converted(data: bytes) -> tuple[dict[str, Any], list[str]]:
    made = of_cosbench(data, "w.xml")
    assert Scenario.from_json(made.text)
    return json.loads(made.text), list(made.notes)


def decoded(data: bytes) -> None:
    """Invariant: a valid scenario with printable notes, or an error of ours."""
    made = of_cosbench(data, "w.xml")
    Scenario.from_json(made.text)
    assert all(note.isprintable() for note in made.notes)


def decoded_command(data: bytes) -> None:
    made = of_warp(data.decode("utf-8", "replace"))
    Scenario.from_json(made.text)
    assert all(note.isprintable() for note in made.notes)


COMMANDS = [
    b"warp mixed --host=h{1...4}:9000 --duration=1m30s --objects 50 --obj.size 1KiB,1MiB --tls",
    b"warp get --obj.randsize --obj.size=64KiB --range",
    b"warp stat --obj.size 1KB:3,2KB:1 --secret-key 'hush'",
]


def test_a_workload_of_cosbench() -> None:
    found, notes = converted(WORKLOAD)
    assert found == {
        "name": "s3 sample",
        "sizes": [{"name": "object", "size": 64_000}],
        "initial_files": {"object": 20},
        "container_count": 2,
        "run_seconds": 30,
        "user_count": 8,
        "operations": {"read": 80, "create": 20},
    }
    assert notes == ["left out: \"storage s3\": say the store and the credentials with ssbench's"
                     " options"]  # fmt: skip


def work(operations: str, prepared: str = "", **attributes: str) -> bytes:
    words = " ".join(f'{key}="{value}"' for key, value in attributes.items())
    return (
        "<workload><workflow><workstage><work type='prepare' config='containers=r(1,4);"
        f"objects=r(1,25);{prepared or 'sizes=c(1)MB'}'/></workstage><workstage name='m'>"
        f"<work workers='2' {words}>{operations}</work></workstage></workflow></workload>"
    ).encode()


READ = "<operation type='read' config='containers=u(1,4);objects=u(1,25)'/>"


def test_several_workstages_of_cosbench_become_stages() -> None:
    work = b'<work workers="%d" %s><operation type="%s" ratio="100" config="containers=c(1);'
    work += b'objects=u(1,20);sizes=c(1)KB" /></work>'
    data = b"".join([
        b'<workload name="w"><workflow><workstage name="prepare"><work type="prepare" workers="1"',
        b' config="containers=c(1);objects=r(1,20);sizes=c(1)KB" /></workstage>',
        b'<workstage name="reads">', work % (4, b'name="a" runtime="30" rampup="5"', b"read"),
        b'</workstage><workstage name="both">', work % (2, b'name="b" totalOps="50"', b"write"),
        work % (1, b'name="c" totalOps="10"', b"delete"), b"</workstage></workflow></workload>",
    ])  # fmt: skip
    scenario, _notes = converted(data)
    assert "operations" not in scenario
    assert scenario["stages"] == [
        {"name": "reads", "seconds": 35, "warmup": 5, "users": 4, "operations": {"read": 100}},
        {
            "name": "both",
            "operation_count": 60,
            "groups": {
                "b": {"users": 2, "operations": {"update": 100}},
                "c": {"users": 1, "operations": {"delete": 100}},
            },
        },
    ]


@pytest.mark.parametrize(
    ("data", "keys", "note"),
    [
        (work(READ, totalOps="70"), {"operation_count": 70, "initial_files": {"object": 100}}, ""),
        (work(READ, runtime="60", rampup="10", rampdown="5"),
         {"warmup": 10, "cooldown": 5, "run_seconds": 70}, ""),
        (work(READ, runtime="60", afr="1000"), {"thresholds": ["errors <= 0.1%"]}, ""),
        (work(READ, "sizes=u(1,8)KB", runtime="60"),
         {"sizes": [{"name": "object", "size": {"uniform": [1000, 8000]}}]}, ""),
        (work(READ, "sizes=h(1|64|10,64|512|90)KB", runtime="60"),
         {"sizes": [{"name": "object",
                     "size": {"histogram": [[1000, 64000, 10], [64000, 512000, 90]]}}]}, ""),
        (work("<operation type='write' config='objects=u(1,25);sizes=c(1)MB'/>", runtime="60"),
         {"operations": {"update": 100}}, ""),
        (work(f"{READ}<operation type='write' config='objects=u(1,25);sizes=c(2)MB'/>",
              runtime="60"), {}, "different: what is written has the sizes of what is prepared"),
        (work(f"{READ}<operation type='restore'/>", runtime="60"), {"operations": {"read": 100}},
         'left out: operation "restore": ssbench has none like it'),
        (work(READ.replace("25)", "25);hashCheck=true"), runtime="60"), {},
         "left out: hashCheck: run with --verify"),
        (work(READ, driver="d1", runtime="5"), {}, 'left out: "driver" of a work'),
    ],
)  # fmt: skip
def test_what_a_work_of_cosbench_says(data: bytes, keys: dict[str, Any], note: str) -> None:
    found, notes = converted(data)
    assert {key: found[key] for key in keys} == keys
    assert notes == [note] * bool(note)


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (b"", "not a workload of COSBench"),
        (b"<a/>", "not a workload of COSBench"),
        (b"<!DOCTYPE x [<!ENTITY e 'u'>]><workload name='&e;'/>", "no document type"),
        (b"<workload/>", "no <work> has an <operation>"),
        (work(READ, runtime="soon"), 'runtime "soon" is not a whole number'),
        (work(READ.replace("u(1,25)", "u(25,1)"), runtime="1"), '"u(25,1)" is no selector'),
        (work(READ, "sizes=c(1)KiB", runtime="1"), "the unit is B, KB, MB or GB"),
        (work("<operation type='dance'/>", runtime="1"), "no operation of a <work>"),
    ],
)
def test_what_is_no_workload_is_refused(data: bytes, wrong: str) -> None:
    with pytest.raises(UsageError) as caught:
        of_cosbench(data, "w.xml")
    assert str(caught.value).startswith("w.xml: ")
    assert wrong in str(caught.value)


def test_a_command_line_of_warp() -> None:
    made = of_warp(
        "warp mixed --host=h{1...4}:9000 --access-key me --secret-key=hush --duration 1m30s"
        " --objects 50 --obj.size=10KiB --concurrent 4 --stat-distrib 0 --autoterm"
    )
    assert json.loads(made.text) == {
        "name": "warp mixed",
        "sizes": [{"name": "object", "size": 10240}],
        "initial_files": {"object": 50},
        "container_count": 1,
        "operations": {"read": 45, "create": 15, "delete": 10},
        "run_seconds": 90,
        "user_count": 4,
    }
    assert [note.partition(":")[2].strip().partition(":")[0] for note in made.notes] == [
        "--host", "--access-key", "--secret-key", "--autoterm",
    ]  # fmt: skip
    assert "hush" not in " ".join(made.notes)


@pytest.mark.parametrize(
    ("line", "keys"),
    [
        ("get", {"operations": {"read": 1}, "initial_files": {"object": 2500}}),
        ("put", {"sizes": [{"name": "object", "size": 10 << 20}], "user_count": 20}),
        ("put --obj.size 20MiB", {"large_object": {"above": 16 << 20, "segment": 16 << 20,
                                                   "parallel": 4}}),
        ("delete --batch 10", {"operations": {"bulk_delete": 1}, "bulk_count": 10}),
        ("stat --obj.size 1KB:3,2KB:1",
         {"sizes": [{"name": "object", "size": {"list": [[1000, 3], [2000, 1]]}}]}),
        ("list --obj.size 1KB,2KB",
         {"sizes": [{"name": "object", "size": {"uniform": [1000, 2000]}}]}),
    ],
)  # fmt: skip
def test_other_commands_of_warp(line: str, keys: dict[str, Any]) -> None:
    found = json.loads(of_warp(f"warp {line}").text)
    assert {key: found[key] for key in keys} == keys


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("", '"": give a command line in quotes'),
        ("warp zip", '"zip": give a command line in quotes'),
        ("warp get --objcts 3", "--objcts: warp has no such option; did you mean --objects?"),
        ("warp get hush", "a word without an option"),
        ("warp get --duration soon", '--duration "soon"'),
        ("warp get --obj.size big", '--obj.size "big"'),
        ("warp get '", "a quote is not closed"),
    ],
)
def test_what_is_no_command_line_of_warp_is_refused(line: str, wrong: str) -> None:
    with pytest.raises(UsageError) as caught:
        of_warp(line)
    assert wrong in str(caught.value)
    assert "hush" not in str(caught.value)
