"""The table of storage drivers, and how to open one."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from ssbench.core.errors import UsageError
from ssbench.core.settings import StorageSettings
from ssbench.storage.base import Storage

#: Name -> "module:Class". The class takes the settings and a seed; it is imported on use.
DRIVERS = {
    "noop": "ssbench.storage.noop:NoopStorage",
    "swift": "ssbench.storage.swift:SwiftStorage",
}


def open_storage(settings: StorageSettings, seed: int | None = None) -> Storage:
    """Open the driver that ``settings.driver`` names, for this thread's gevent hub.

    :param seed: of the driver's random choices (which storage URL); None: not reproducible.
    :raises UsageError: the driver is unknown or can't be imported, or rejects the settings.
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
