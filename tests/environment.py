"""The environment of the tests: the same on every machine, for them and for what they start.

Variables that nobody here named are absent, so what a test expects can't depend on the settings of
whoever runs it. A test that is about a variable, the umask or a time zone sets it itself.
"""

from __future__ import annotations

import locale
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress

#: Kept as they are: where programs and libraries are, what the tests themselves are told.
_KEPT = frozenset({
    "HOME", "PATH", "LD_LIBRARY_PATH", "PYENV_ROOT", "PYENV_VERSION", "TMPDIR",
    "PYTHONPYCACHEPREFIX", "PY_COLORS",
    "SSBENCH_ALL_SERVERS", "SSBENCH_FUZZ_EXAMPLES", "SSBENCH_WRITE_GOLDEN",
})  # fmt: skip
_KEPT_PREFIXES = ("PYTEST_", "COVERAGE_", "COV_")
_OURS = {
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "SSBENCH_CONFIG": "",  # no file with defaults of a site
    "HYPOTHESIS_NO_PLUGINS": "1",  # no trio, which selenium brings: 0.2 s less to import
    # As ssbench-master does; with threads of its own, a process that has loaded numpy can't be
    # forked.
    "OPENBLAS_NUM_THREADS": "1",
}
#: What whoever runs the tests has set; in a process of pytest-xdist, what is left of it.
GIVEN = dict(os.environ)


def own_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of the tests, from those of whoever runs them."""
    kept = {k: v for k, v in environ.items() if k in _KEPT or k.startswith(_KEPT_PREFIXES)}
    if environ.get("NO_COLOR"):  # pytest's own output
        kept.setdefault("PY_COLORS", "0")
    return {**kept, **_OURS}


def adopt() -> str | None:
    """Give it to this process. Returns the new folder that is HOME, to be removed at the end.

    None in a process of pytest-xdist, which has the home of the one that started it.
    """
    made = None if "PYTEST_XDIST_WORKER" in os.environ else tempfile.mkdtemp(prefix="ssbench-home-")
    own = own_environment(os.environ)
    with suppress(ImportError):
        import readline  # noqa: F401  # which pdb does later: it sets the next two behind os.environ
    os.unsetenv("COLUMNS")
    os.unsetenv("LINES")
    os.environ.clear()
    os.environ.update({**own, "HOME": made or own["HOME"]})
    time.tzset()
    locale.setlocale(locale.LC_ALL, "C.UTF-8")
    os.umask(0o022)
    return made
