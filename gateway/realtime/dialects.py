"""The wire dialects that are served. Adding one: its file, and a line here."""

from __future__ import annotations

from lookhear.gateway.realtime.deepgram.dialect import DeepgramDialect
from lookhear.gateway.realtime.deepgram.flux import FluxDialect
from lookhear.gateway.realtime.openai.dialect import OpenAIDialect, dialect_within
from lookhear.gateway.realtime.protocol.dialect import Dialect
from lookhear.gateway.realtime.vllm.dialect import VllmDialect

__all__ = ["DIALECTS", "dialect_within"]

DIALECTS: tuple[type[Dialect], ...] = (OpenAIDialect, VllmDialect, DeepgramDialect, FluxDialect)
