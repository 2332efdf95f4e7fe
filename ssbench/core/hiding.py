"""Structs whose repr leaves fields out: secrets, and what is long."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import Struct


class Hiding(Struct, frozen=True):
    """A struct whose repr leaves out the fields that ``HIDDEN`` names."""

    HIDDEN: ClassVar[tuple[str, ...]]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({shown})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:  # a struct's own has every field
        names = [name for name in self.__struct_fields__ if name not in self.HIDDEN]
        return [(name, getattr(self, name)) for name in names]
