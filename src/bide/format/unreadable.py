"""What a decoder of MessagePack or JSON raises for bytes that hold no such value."""

from __future__ import annotations

import msgspec

UNREADABLE = (msgspec.DecodeError, RecursionError)
"""The second for what is nested too deep."""
