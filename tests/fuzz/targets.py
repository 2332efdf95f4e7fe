"""What is fuzzed: for each parser the invariant of its test, and the inputs to begin with.

Both stand in the parser's test file, so that ``make test`` and ``make fuzz`` hold it to the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from tests.corpus import recorded

Invariant = Callable[[bytes], object]


class Target(NamedTuple):
    """``invariant`` names, as module:function below ``tests``, what takes bytes and raises where
    it doesn't hold; ``seeds`` a folder of the corpus, or a list or function as module:name."""

    invariant: str
    seeds: str

    def load(self) -> tuple[Invariant, Sequence[bytes]]:
        """The invariant and the seeds."""
        if ":" not in self.seeds:
            return _named(self.invariant), recorded(self.seeds)
        seeds = _named(self.seeds)
        return _named(self.invariant), seeds() if callable(seeds) else seeds


def _named(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f"tests.{module}"), name)


TARGETS: dict[str, Target] = {
    "messages": Target("core.test_messages:harmless", "frames"),
    "unpacking": Target("core.test_unpacking:plain", "core.test_unpacking:messages_and_batches"),
    "batches": Target("core.test_columns:whole", "core.test_columns:packed_batches"),
    "settings": Target(
        "core.test_settings:readable", "core.test_settings:settings_of_control_states"
    ),
    "results": Target(
        "core.dispatch.test_dispatcher:accounted_for",
        "core.dispatch.test_dispatcher:results_of_the_field",
    ),
    "hellos": Target(
        "core.dispatch.test_worker_registry:bounded", "core.dispatch.test_worker_registry:HELLOS"
    ),
    "clocks": Target(
        "core.dispatch.test_clock_skew:reckoned", "core.dispatch.test_clock_skew:CLOCKS"
    ),
    "stat-file": Target("statfile.test_reader:reported", "statfile.test_reader:FILES"),
    "stat-file-payload": Target(
        "statfile.test_records:reported_payload", "statfile.test_records:PAYLOADS"
    ),
    "resume": Target("runner.test_orphans:resumable", "runner.test_orphans:record_seeds"),
    "old-stat-file": Target(
        "statfile.test_legacy:reported_old", "statfile.test_legacy:OLD_PAYLOADS"
    ),
    "scenario": Target(
        "core.scenario.test_scenario:run_or_refused", "core.scenario.test_scenario:CANNED"
    ),
    "access-log": Target(
        "commands.test_log_formats:parsed_or_not_understood", "commands.test_log_formats:SEEDS"
    ),
    "http-head": Target("storage.http.test_response:head_or_refused", "answers"),
    "http-layouts": Target(
        "storage.http.test_response:read_alike", "storage.http.test_response:TWO_HEADS"
    ),
    "http-chunks": Target(
        "storage.http.test_response:chunks_or_refused", "storage.http.test_response:CHUNKED_BODIES"
    ),
    "http-pieces": Target(
        "storage.http.test_connection:same_in_pieces", "storage.http.test_connection:ANSWERS"
    ),
    "swift-json": Target("storage.swift.test_bodies:parsed", "swift-json"),
    "s3-xml": Target(
        "storage.s3.test_bodies:parsed_or_refused", "storage.s3.test_bodies:RESPONSES"
    ),
    "multistatus": Target(
        "storage.webdav.test_bodies:parsed", "storage.webdav.test_multistatus:RESPONSES"
    ),
    "challenges": Target(
        "storage.http.test_digest:answered", "storage.http.test_digest:CHALLENGES"
    ),
    "login": Target("storage.swift.test_login:logged_in_or_refused", "login"),
    "environment": Target("cli.test_config:environment_used", "environments"),
    "network": Target("transport.test_network:harmless", "network"),
    "key": Target("transport.test_key:key_or_refused", "keys"),
}
