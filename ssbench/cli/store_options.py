"""Options of the commands that access a store."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from msgspec.structs import replace

from ssbench.core.errors import UsageError
from ssbench.core.option import Option, options_of_fields, row
from ssbench.storage.options import StoreOptions, check_http_url, parse_storage_options
from ssbench.storage.registry import ROWS, options_of, row_of

DEFAULT_STORE = "swift"

#: Options of each store in the package, by its name.
_OWN = {row.name: options_of(row) for row in ROWS.values()}

# fmt: off
STORE_OPTIONS: tuple[Option, ...] = (
    row("--storage", "storage", str, "store",
        f"the store: {', '.join(ROWS)}, or a driver of your own as package.module:Class [default: "
        f"{DEFAULT_STORE}]", metavar="NAME", brief=", ".join(ROWS)),
    row("--storage-option", "storage_options", str, "store",
        "an option of the store; may be repeated. Secret ones are read from the environment, or "
        "from the file that KEY_file=PATH names", metavar="KEY=VALUE", repeat=True),
    *options_of_fields(StoreOptions),
    *dict.fromkeys(
        replace(option, of_store=True)
        for options in _OWN.values()
        for option in options
        if option.flags
    ),
)
# fmt: on


def store_options(ns: argparse.Namespace, environ: Mapping[str, str]) -> StoreOptions:
    """Store options from a parsed command line and the environment. Loads an outside driver.

    :raises UsageError: the store is unknown, or an option isn't one of its own, or is secret.
    """
    if ns.storage and "://" in ns.storage:  # an earlier short form of --storage-url
        ns.storage_urls = [
            *(ns.storage_urls or ()),
            check_http_url(ns.storage, "--storage: the URL"),
        ]
        ns.storage = None
    is_noop = getattr(ns, "noop", False)
    if is_noop and "storage" in ns.given and ns.storage != "noop":
        raise UsageError("--noop is short for --storage noop: leave out one of them")
    driver = "noop" if is_noop else ns.storage or DEFAULT_STORE
    try:
        rows = options_of(row_of(driver))
    except UsageError as error:
        raise UsageError(f"--storage: {error}") from error
    if not is_noop:  # --noop leaves the rest of a command line as it is
        _check_own(ns, driver)
    given = {each.name: getattr(ns, each.name, None) for each in rows}
    return StoreOptions(
        driver,
        {
            **{name: value for name, value in given.items() if value is not None},
            **parse_storage_options(ns.storage_options or (), rows),
        },
        environ,
        ns.connect_timeout_s,
        ns.network_timeout_s,
        ns.listed_max,
        ns.url_choice,
        site={
            name: each.value for name, each in ns.site.items() if name in given and each.from_file
        },
    )


def given_on_command_line(ns: argparse.Namespace) -> list[str]:
    """Options of the command line that select a store, or say how to reach or log in to one."""
    return [
        each.flags[0]
        for each in STORE_OPTIONS
        if each.name in ns.given
        and (each.of_store or each.name in ("storage", "storage_options"))
        and each.group != "TLS"
    ]


def _check_own(ns: argparse.Namespace, driver: str) -> None:
    """:raises UsageError: the command line has an option that only other stores have."""
    own = {option.name for option in options_of(row_of(driver))}
    for option in STORE_OPTIONS:
        if option.of_store and option.name in ns.given and option.name not in own:
            stores = " or ".join(
                name for name, options in _OWN.items() if option.name in {o.name for o in options}
            )
            raise UsageError(
                f"{option.flags[0]} is an option of --storage {stores}, and the store is {driver}: "
                f"give --storage {stores}, or leave out {option.flags[0]}"
            )
