"""The exceptions of ssbench, and the exit statuses that they lead to.

::

    SsbenchError                 status 1   something failed; the message says what
    ├── UsageError               status 2   the user's input is wrong; the store was not changed
    │   └── ScenarioError                   ... in the scenario: carries every fault found
    ├── AuthError                status 1   authentication failed
    │   └── RejectedError                   ... and there are no other credentials to try
    ├── NoWorkersError           status 6   none, or fewer than requested, connected
    ├── StatFileError            status 1   a stat file can't be written, or the file is not one
    │   └── NoStatFileError      status 2   ... or there is no file that can be opened
    ├── MessageError                        a message that is not valid
    │   └── ProtocolError                   ... but one of another protocol version
    └── StorageError                        one failed attempt at the store (becomes a Result)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, NoReturn, ParamSpec, TypeVar

if TYPE_CHECKING:
    from ssbench.core.model import ErrorKind, Timing
P = ParamSpec("P")
T = TypeVar("T")


class ExitStatus(IntEnum):
    """What the commands exit with. ``meaning`` is for the reference, in reStructuredText."""

    meaning: str

    def __new__(cls, number: int, meaning: str = "") -> ExitStatus:
        status = int.__new__(cls, number)
        status._value_ = number
        status.meaning = meaning
        return status

    OK = 0, "Success"
    FAILED = (
        1,
        "Failure: the login failed, a full disk, a truncated stat file; also if more than half of "
        "the operations failed or were lost, or a check of ``doctor`` found something wrong",
    )
    USAGE = (
        2,
        "Usage error in the command line, the environment or the scenario, also a file that can't "
        "be written; the store was not changed",
    )
    THRESHOLD_MISSED = (
        3,
        "A threshold (``--threshold``) was missed, also where that ended the run early "
        "(``--abort-on-threshold``)",
    )
    CORRUPTION = 4, "``--verify`` found corrupt content"
    INTERRUPTED = 5, "Interrupted; the results so far are kept"
    WORKERS_LOST = (
        6,
        "Workers are missing: none came, or fewer than ``--expect-workers`` or ``--workers`` says, "
        "or a host of ``--ssh-workers`` could not start them, and the run did not start; or some "
        "were lost, or exited (also by a signal) before the master released them, or could run "
        "fewer users than requested, and the run continued with the rest",
    )


#: By severity: if several apply, the first one wins.
GRAVITY = (
    ExitStatus.USAGE,
    ExitStatus.FAILED,
    ExitStatus.CORRUPTION,
    ExitStatus.INTERRUPTED,
    ExitStatus.WORKERS_LOST,
    ExitStatus.THRESHOLD_MISSED,
    ExitStatus.OK,
)


def gravest(statuses: Sequence[ExitStatus]) -> ExitStatus:
    """The status that wins; OK for none."""
    return min(statuses, key=GRAVITY.index, default=ExitStatus.OK)


def most_failed(done: int, failed: int) -> bool:
    """Whether more than half of a run's operations failed or were lost: then the run failed, too.

    :param failed: and lost.
    """
    return failed > done


class SsbenchError(Exception):
    """Base of ssbench's errors. ``str()`` is one line for the user."""

    exit_status = ExitStatus.FAILED


class UsageError(SsbenchError):
    """The command line, the environment or a file of the user's is wrong."""

    exit_status = ExitStatus.USAGE


class ScenarioError(UsageError):
    """A scenario with faults; ``faults`` has one line for each, file and place included."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


class AuthError(SsbenchError):
    """Authentication failed. The message never holds a secret."""


class RejectedError(AuthError):
    """The store, or its login, rejected the credentials, and there are no others: operations with
    them need not wait for a renewal."""


class NoWorkersError(SsbenchError):
    """No worker, or fewer than requested, connected in time: the run doesn't start."""

    exit_status = ExitStatus.WORKERS_LOST


class StatFileError(SsbenchError):
    """A stat file that can't be written, or one that can't be read as such."""


class NoStatFileError(StatFileError):
    """A stat file that is missing, closed to us, or a device or the like."""

    exit_status = ExitStatus.USAGE


class MessageError(SsbenchError):
    """Bytes off the wire that are not a valid message: wrong version, type, length or form."""


class ProtocolError(MessageError):
    """A message of another protocol version.

    :param protocol: its version; None if that is no number.
    :param sender: ``worker-3 (host, pid 12)``, printable, where it is a worker's hello; or "".
    :param release: the sender's release of ssbench, printable; "" where it isn't known.
    """

    def __init__(
        self, text: str, protocol: int | None, *, sender: str = "", release: str = ""
    ) -> None:
        super().__init__(text)
        self.protocol = protocol
        self.sender = sender
        self.release = release


MAX_DETAIL = 1000


class StorageError(SsbenchError):
    """One attempt at an operation failed.

    :param kind: the kind that the report names. NONE: the operation succeeded, with this Timing,
        and ``detail`` is a note on the store for the report; a driver raises each note once.
    :param detail: one line, free of secrets, for the report's example; it is cut off at MAX_DETAIL
        characters.
    :param status: the HTTP status, 0 where there was no response.
    :param timing: of the response, where there was one.
    :param sent: False if it is certain that no byte of the request went out
        (so the operation can't have happened).
    :param rate_limited: the store asked for fewer requests, although the status does not say so.
    :param url: index of the storage URL that was asked; of a response, its Timing has it.
    :param address: number of the address that was asked, likewise.

    ``identity`` is the number of the identity that asked, from 1; 0: there is but one.

    ``partly_done`` is true if an earlier request of the operation changed the store: what it left
    there has to be cleaned up, whatever the status says.

    ``reconnects`` is the number of times that the driver had repeated the request by itself before
    it failed (see ``Timing.reconnects``).
    """

    def __init__(
        self,
        kind: ErrorKind,
        detail: str,
        *,
        status: int = 0,
        timing: Timing | None = None,
        sent: bool = True,
        rate_limited: bool = False,
        url: int = 0,
        address: int = 0,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail[:MAX_DETAIL]
        self.status = status
        self.timing = timing
        self.sent = sent
        self.identity = 0
        self.partly_done = False
        self.rate_limited = rate_limited
        self.url = timing.url if timing is not None else url
        self.address = timing.address if timing is not None else address
        self.reconnects = timing.reconnects if timing is not None else 0


def outcome_of(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Callable[[], T]:
    """Call, and return a function that returns the call's value or raises its exception.

    A thread of gevent's pool prints the traceback of any exception raised in it, even if its
    caller handles the exception. With this, nothing is raised in the thread.
    """
    try:
        value = call(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - nothing is swallowed: the caller gets it
        return partial(_raise, error)
    return lambda: value


def _raise(error: Exception) -> NoReturn:
    raise error
