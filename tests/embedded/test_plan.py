from __future__ import annotations

import configparser

from hypothesis import given
from hypothesis import strategies as st

from ssbench.embedded.plan import POLICIES, ROLES, Plan, conf_files, overlaid, render

PLAN = Plan(
    top="/t",
    host="127.0.0.1",
    ports={role: 100 + i for i, role in enumerate(ROLES)},
    access_log="/t/access.log",
    fernet_key="top-secret-key",
)


def parsed(text: str) -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None)
    found.read_string(text)
    return found


def test_the_plan_reaches_the_child_whole() -> None:
    assert Plan.from_json(PLAN.to_json()) == PLAN
    assert "\n" not in PLAN.to_json()


def test_no_repr_shows_the_key() -> None:
    assert "top-secret-key" not in repr(PLAN)


def test_there_is_a_file_for_each_role_and_one_for_all() -> None:
    assert set(conf_files(PLAN)) == {"swift.conf", *(f"{role}-server.conf" for role in ROLES)}


def test_gold_is_the_default_of_the_two_policies() -> None:
    conf = parsed(conf_files(PLAN)["swift.conf"])
    assert [conf[f"storage-policy:{i}"]["name"] for i in range(len(POLICIES))] == ["gold", "silver"]
    assert conf["storage-policy:0"]["default"] == "yes"
    assert "default" not in conf["storage-policy:1"]


def test_every_middleware_of_the_pipeline_has_its_section() -> None:
    conf = parsed(conf_files(PLAN)["proxy-server.conf"])
    *filters, last = conf["pipeline:main"]["pipeline"].split()
    assert {f"filter:{name}" for name in filters} <= set(conf.sections())
    assert last == "proxy-server"
    assert {"s3api", "tempauth", "slo", "dlo", "bulk", "copy"} <= set(filters)


def test_tempauth_knows_the_three_users() -> None:
    section = parsed(conf_files(PLAN)["proxy-server.conf"])["filter:tempauth"]
    assert section["user_test_tester"].split() == ["testing", ".admin"]
    assert section["user_admin_admin"].split() == ["admin", ".admin", ".reseller_admin"]
    assert section["user_test_tester3"].split() == ["testing3"]


def test_changes_are_laid_over_option_by_option() -> None:
    base = {"a": {"x": "1", "y": "2"}, "b": {"z": "3"}}
    changes = {"a": {"y": "20"}, "c": {"w": "4"}}
    assert overlaid(base, changes) == {"a": {"x": "1", "y": "20"}, "b": {"z": "3"}, "c": {"w": "4"}}


WORDS = st.text("abcdefghij_", min_size=1)


@given(st.dictionaries(WORDS, st.dictionaries(WORDS, WORDS)))
def test_what_is_rendered_reads_back_the_same(sections: dict[str, dict[str, str]]) -> None:
    """Invariant: a config parser finds in the text just what was given."""
    found = parsed(render(sections))
    assert {name: dict(found[name]) for name in found.sections()} == sections
