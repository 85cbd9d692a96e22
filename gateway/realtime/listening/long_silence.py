"""Behind an answer nobody speaks for long: another one comes unasked, as OpenAI's
`idle_timeout_ms` has it. Pure: time is what audio lasts."""

from __future__ import annotations

from lookhear.gateway.realtime.listening.turn import milliseconds


class LongSilence:
    """Of one session, in samples on its clock."""

    def __init__(self) -> None:
        self._since = 0

    def hear(self, end: int, timeout_ms: int | None) -> int | None:
        """Audio up to there came. timeout_ms: how long the silence may last; None: nobody waits for
        speech, as it goes on, is being answered, or there was no answer. Returns where the silence
        began, once it has lasted that long; then it begins anew."""
        since = self._since
        if timeout_ms is None:
            self._since = end
            return None
        if milliseconds(end - since) < timeout_ms:
            return None
        self._since = end
        return since
