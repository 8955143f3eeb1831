"""Checks values that code passes: not all code is type-checked, and what does not fit could not be read again."""

import os
from typing import Any, TypeVar

import msgspec

from teamwright.core.errors import UsageError

T = TypeVar("T")


def checked(value: T, kind: Any, name: str) -> T:
    """The value, as one of that kind; UsageError if a field has a value of another type."""
    try:
        return msgspec.convert(msgspec.to_builtins(value, enc_hook=os.fspath), kind)
    except (msgspec.ValidationError, TypeError) as error:
        raise UsageError(f"{name}: {error}") from None
