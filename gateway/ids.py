"""Ids that nobody can guess."""

from __future__ import annotations

import secrets


def new_id(prefix: str) -> str:
    """ "item" -> "item_" and 24 hex digits."""
    return f"{prefix}_{secrets.token_hex(12)}"
