"""A run touches what is its own: neighbours of every near-miss name stay as they were."""

from __future__ import annotations

from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import Account, Commands, login

OURS = range(3)
NEAR_MISSES = [
    "{0}", "{0}_", "{0}_00000", "{0}_0000000", "{0}_00000a", "{0}_000000_", "{0}_000000_gold",
    "{0}_000000x", "{0}_000000 ", "{0}_000003", "{0}_backup", "{0}-000000", "{0}__000000",
    "x{0}_000000", "{0}2_000000", "{0}_٠٠٠٠٠٠", "{0}_segments",
]  # fmt: skip


def whole(account: Account, containers: list[str]) -> dict[str, bytes]:
    """Listings with ETags and times: a PUT of the same bytes would show."""
    return {name: account("GET", f"{name}?format=json")[2] for name in containers}


def test_other_containers_and_objects_are_not_changed(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    account = Account(embedded_swift)
    neighbours = [name.format(base) for name in NEAR_MISSES]
    for name in neighbours:
        assert account("PUT", name)[0] == 201
        for number in range(4):
            assert account.put(name, f"tiny_{number:06d}") == 201
    before = whole(account, neighbours)
    path = commands.scenario(container_base=base, container_count=len(OURS))
    commands.run("-f", path, *login(embedded_swift), workers=1).fine()
    made = [f"{base}_{number:06d}" for number in OURS]
    assert sorted({*account.containers(base), *neighbours}) == sorted({*made, *neighbours})
    assert whole(account, neighbours) == before
    commands.call("cleanup-containers", "-b", base, *login(embedded_swift)).fine()
    assert whole(account, neighbours) == before  # also what only has the name of a run's
    assert not set(account.containers(base)) & set(made)


def test_a_container_with_foreign_objects_is_rejected_without_the_option(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    account = Account(embedded_swift)
    theirs = f"{base}_000001"
    assert account("PUT", theirs)[0] == 201
    assert account.put(theirs, "letters/from home") == 201
    before = whole(account, [theirs])
    path = commands.scenario(container_base=base, container_count=3)
    line = commands.run("-f", path, *login(embedded_swift), workers=1).one_line()
    for word in (theirs, "holds 1 object", "--use-existing", "container_base"):
        assert word in line
    assert whole(account, [theirs]) == before
    assert account.objects(base) == [f"{theirs}/letters/from home"]

    commands.run("-f", path, "--use-existing", *login(embedded_swift), workers=1).fine()
    assert f"{theirs}/letters/from home" in account.objects(base)
    assert "X-Container-Meta-Ssbench" not in account("HEAD", theirs)[1]
    again = commands.run("-f", path, *login(embedded_swift), workers=1).one_line()
    assert theirs in again


def test_an_empty_container_gets_our_mark(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    account = Account(embedded_swift)
    assert account("PUT", f"{base}_000000")[0] == 201
    path = commands.scenario(container_base=base, container_count=1, operation_count=20)
    for _ in range(2):
        commands.run("-f", path, *login(embedded_swift), workers=1).fine()
    assert account("HEAD", f"{base}_000000")[1]["X-Container-Meta-Ssbench"]
