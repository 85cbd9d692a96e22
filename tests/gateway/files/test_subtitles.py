"""A transcribed file as subtitles."""

from __future__ import annotations

from lookhear.engine.messages import Segment
from lookhear.gateway.files.subtitles import srt, vtt


def test_of_a_text_nothing_is_taken_for_markup() -> None:
    segments = [Segment(" if a<b &\nb-->c", 0.0, 1.5, [], 0.0, 0.0)]
    assert vtt(segments) == "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nif a&lt;b &amp; b--&gt;c\n"
    assert srt(segments) == "1\n00:00:00,000 --> 00:00:01,500\nif a<b & b->c\n"
