"""What all tests share."""

import resource
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

# A slow moment of a shared machine is no defect; pytest-timeout ends what hangs.
settings.register_profile("ssbench", deadline=None)
settings.load_profile("ssbench")

# A shell makes its background jobs ignore SIGINT, nohup makes them ignore SIGHUP. Processes that
# the tests start inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture
def few_files() -> Iterator[int]:
    """A process that may open 256 files, unless it asks for more; gives how many then."""
    before = soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
