from __future__ import annotations

from time import perf_counter_ns

from ssbench.core.model import Job
from ssbench.core.operations import OPERATIONS
from ssbench.core.settings import StorageSettings
from ssbench.storage.noop import NoopStorage
from tests.fakes.drivers import driver_settings, with_token


def test_every_operation_succeeds_now_and_moves_its_bytes() -> None:
    storage = NoopStorage(StorageSettings(driver="noop"))
    for operation in OPERATIONS.values():
        before = perf_counter_ns()
        timing = storage.actions[operation](Job(1, operation, 0, 0, 0, 77), 0)
        assert before <= timing.headers_ns == timing.last_byte_ns <= perf_counter_ns()
        assert timing.bytes_moved == (77 if operation.moves_content else 0)
        assert timing.status // 100 == 2


def test_it_needs_no_credentials_and_keeps_a_serial() -> None:
    storage = NoopStorage(driver_settings("secret", 2, driver="noop"))
    assert storage.credentials_serial == 2
    storage.set_credentials(with_token("secret", 3))
    assert storage.credentials_serial == 3
    assert "secret" not in repr(vars(storage))
