"""The drivers by name, and how one is opened."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from ssbench.core.errors import UsageError
from ssbench.core.settings import StorageSettings
from ssbench.storage.base import Storage

#: Name -> "module:Class". A class takes the settings and a seed; it is loaded when used.
DRIVERS = {
    "noop": "ssbench.storage.noop:NoopStorage",
    "swift": "ssbench.storage.swift:SwiftStorage",
}


def open_storage(settings: StorageSettings, seed: int | None = None) -> Storage:
    """The driver that ``settings.driver`` names, ready for this thread's gevent hub.

    :param seed: for what a driver draws by chance (which storage URL); None for any.
    :raises UsageError: where there is no such driver, or the settings don't suit it.
    """
    place = DRIVERS.get(settings.driver, settings.driver)
    module_name, colon, class_name = place.partition(":")
    if not colon:
        raise UsageError(
            f'storage driver "{settings.driver}" is unknown: one of {", ".join(sorted(DRIVERS))},'
            ' or your own as "package.module:Class"'
        )
    try:
        driver = getattr(import_module(module_name), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f'storage driver "{settings.driver}" can\'t be loaded: {error}') from error
    return cast(Storage, driver(settings, seed))
