"""--verify, in processes of its own: against stores that tell the truth, and that don't."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from ssbench.core.model import ErrorKind
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.text import bytes_text
from ssbench.embedded import EmbeddedSwift
from ssbench.storage.http.verify import FOREIGN_ETAGS
from tests.e2e.commands import Account, Commands, Ended, Request, login, requests, rows_of, until
from tests.fakes.lying_swift import ETAG, LIES, OLD, PUT_ETAG, LyingSwift

CORRUPTION = 4
#: One size, so that an object of the same length is always there to be given for another.
SIZES = [{"name": "tiny", "size_min": 5000, "size_max": 5000}]


def against(swift: LyingSwift, commands: Commands, *more: object, **keys: object) -> Ended:
    values = {"sizes": SIZES, "crud_profile": [1, 6, 3, 0], "operation_count": 300, **keys}
    who = ["-A", swift.auth_url, "-U", "test:tester", "-K", "testing"]
    return commands.run("-f", commands.scenario(**values), *who, *more, workers=1)


def counted(stats: RunStats) -> Counter[str]:
    """Errors of the run by kind."""
    found: Counter[str] = Counter()
    for (kind, _status), error in stats.errors.items():
        found[ErrorKind(kind).label] += error.count
    return found


def test_corrupt_answers_and_reported_corruptions_agree(commands: Commands) -> None:
    lies = [lie for lie in LIES if lie != ETAG]
    with LyingSwift(lies) as swift:
        ended = against(swift, commands, "--verify").fine(CORRUPTION)
    told = swift.told
    assert set(told) == {*lies}
    stats = ended.stats
    corrupt = told.total() - told[OLD]
    assert counted(stats) == {"corrupt": corrupt, "stale": told[OLD]}
    assert stats.run.complete
    reads = stats.total(1).operations
    found = f"{corrupt} corrupt, {told[OLD]} stale"
    assert stats.verified is not None
    assert stats.verified.bytes_read == reads * 5000 + told["longer"] - told["truncated"]
    size = bytes_text(stats.verified.bytes_read)
    assert f"Verified: {reads} reads, {size}; {found}" in ended.out
    assert f"WARNING: {corrupt} operations found corrupt content" in ended.err
    details = [row["detail"] for row in rows_of(ended.results) if row["error"]]
    assert all(re.match(r"ssbench_\d{6}/tiny_\w+: ", detail) for detail in details), details
    assert re.search(r"  First corrupt: \w+: ssbench_\d+/tiny\S+: .* tx\w+-\w+\n", ended.out)


def test_right_content_under_a_foreign_etag_is_a_note_once(commands: Commands) -> None:
    with LyingSwift([ETAG, PUT_ETAG]) as swift:
        ended = against(swift, commands, "--verify").fine(0)
    assert swift.told[ETAG] > 5
    assert not ended.stats.errors
    assert list(ended.stats.store_notes) == [FOREIGN_ETAGS]
    assert ended.out.count("Note: The store's ETags look like an MD5 and are none") == 1
    assert "; 0 corrupt, 0 stale" in ended.out


def test_stale_content_alone_is_no_corruption(commands: Commands) -> None:
    with LyingSwift([OLD]) as swift:
        ended = against(swift, commands, "--verify").fine(0)
    assert swift.told[OLD] > 10
    assert counted(ended.stats) == {"stale": swift.told[OLD]}
    assert "corrupt content" not in ended.err


def test_without_verify_corruption_goes_unnoticed(commands: Commands) -> None:
    with LyingSwift([lie for lie in LIES if lie not in ("longer", "truncated")]) as swift:
        ended = against(swift, commands).fine(0)
    assert swift.told.total() > 20
    assert not ended.stats.errors
    assert "Verified" not in ended.out


def test_corruption_during_the_warm_up_counts(commands: Commands) -> None:
    in_warm_up, seconds = 0, 0.25
    while not in_warm_up:  # where others use all cores, no READ may end in so short a time
        seconds *= 4
        with LyingSwift(["last bit flipped"]) as swift:
            words = ("--verify", "--warmup", seconds)
            ended = against(swift, commands, *words, run_seconds=1.2, operation_count=None)
        verified = ended.fine(CORRUPTION if swift.told else 0).stats.verified
        assert verified is not None
        assert verified.corrupt == swift.told.total()
        in_warm_up = verified.corrupt - counted(ended.stats)["corrupt"]


@pytest.mark.parametrize(
    ("count", "more"),
    [(100, []), (100, ["--compressible"]), pytest.param(3000, [], marks=pytest.mark.slow)],
)
def test_an_intact_store_passes(
    embedded_swift: EmbeddedSwift, commands: Commands, count: int, more: list[str]
) -> None:
    # Not a base of each one's own: letters and random bytes may follow one another.
    path = commands.scenario(
        crud_profile=[1, 3, 2, 1], operation_count=count, user_count=32,
        initial_files={"tiny": 50}, container_base="verify",
    )  # fmt: skip
    started = commands.start_run("-f", path, *login(embedded_swift), "--verify", *more)
    ended = started.wait(300).fine()
    verified = ended.stats.verified
    assert verified is not None
    assert (verified.corrupt, verified.stale) == (0, 0)
    assert verified.reads == ended.stats.total(1).count > 0
    assert verified.bytes_read == ended.stats.total(1).bytes_moved
    assert not ended.stats.errors


def _is_read(request: Request) -> bool:
    return request.method == "GET" and request.object != ""


def test_an_object_overwritten_by_others_is_found(
    embedded_swift: EmbeddedSwift, commands: Commands
) -> None:
    """Other bytes of the same length, put by somebody else in the middle of the run."""
    base = "verifyback"
    path = commands.scenario(
        sizes=SIZES, crud_profile=[0, 1, 0, 0], operation_count=10**6, think_time=0.02,
        user_count=4, initial_files={"tiny": 8}, container_base=base, container_count=1,
    )  # fmt: skip
    started = commands.start_run("-f", path, *login(embedded_swift), "--verify", workers=1)
    account = Account(embedded_swift)

    def reads() -> int:
        return sum(_is_read(r) for r in requests(embedded_swift, base))

    until("READs", lambda: reads() > 20)
    assert account.put(f"{base}_000000", "tiny_000003", b"x" * 5000) == 201
    before = reads()
    until("READs of all objects, several times", lambda: reads() > before + 80)
    started.interrupt()
    ended = started.wait()
    assert ended.status == CORRUPTION, ended.err
    rows = list(rows_of(ended.results))
    wrong = [row for row in rows if row["error"]]
    assert {row["error"] for row in wrong} == {ErrorKind.CORRUPT}
    assert {row["object"] for row in wrong} == {3}
    place = f"{base}_000000/tiny_000003"
    assert wrong[0]["detail"] == f"{place}: wrong from byte offset 0 on (5,000 bytes)"
    assert len(wrong) < len(rows)
