from __future__ import annotations

import configparser

from hypothesis import given
from hypothesis import strategies as st

from ssbench.embedded.plan import (
    ROLES,
    Plan,
    SwiftOptions,
    conf_files,
    overlaid,
    render,
)

PLAN = Plan(
    SwiftOptions(tls_cert="/c.pem", proxy_conf={"DEFAULT": {"workers": "2"}}),
    top="/t",
    ports={role: 100 + i for i, role in enumerate(ROLES)},
    access_log="/t/access.log",
    fernet_key="top-secret-key",
)


def parsed(text: str) -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None)
    found.read_string(text)
    return found


def test_a_plan_survives_json_and_does_not_show_its_key() -> None:
    assert Plan.from_json(PLAN.to_json()) == PLAN
    assert "\n" not in PLAN.to_json()
    assert "top-secret-key" not in repr(PLAN)


def test_each_role_has_a_file_and_tempauth_the_three_users() -> None:
    files = conf_files(PLAN)
    assert {*files} == {"swift.conf", *(f"{role}-server.conf" for role in ROLES)}
    section = parsed(files["proxy-server.conf"])["filter:tempauth"]
    assert section["user_test_tester"].split() == ["testing", ".admin"]
    assert section["user_admin_admin"].split() == ["admin", ".admin", ".reseller_admin"]
    assert section["user_test_tester3"].split() == ["testing3"]


def test_changes_replace_single_options() -> None:
    base = {"a": {"x": "1", "y": "2"}, "b": {"z": "3"}}
    changes = {"a": {"y": "20"}, "c": {"w": "4"}}
    assert overlaid(base, changes) == {"a": {"x": "1", "y": "20"}, "b": {"z": "3"}, "c": {"w": "4"}}


WORDS = st.text("abcdefghij_", min_size=1)


@given(st.dictionaries(WORDS, st.dictionaries(WORDS, WORDS)))
def test_a_rendered_configuration_parses_to_the_same_sections(
    sections: dict[str, dict[str, str]],
) -> None:
    """Invariant: a config parser reads what was rendered."""
    found = parsed(render(sections))
    assert {name: dict(found[name]) for name in found.sections()} == sections
