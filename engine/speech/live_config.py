"""How live turns are heard: when, how much at once, and when a word is said for good."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from lookhear.engine.messages import SAMPLE_RATE, Delay

# What a session that asks for a delay waits for, in multiples of the usual.
DELAYS: dict[Delay, float] = {
    "minimal": 1 / 2,
    "low": 2 / 3,
    "medium": 1.0,
    "high": 2.0,
    "xhigh": 4.0,
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """samples: of new audio during which a word must have been heard alike to be said for good, if
    its tokens, and those before them, have at least this log-probability."""

    least_logprob: float
    samples: int


@dataclass(frozen=True, slots=True)
class LiveConfig:
    """All in samples at 16 kHz unless said otherwise."""

    tick: int = SAMPLE_RATE // 4  # least new audio between two ticks
    late: int = 3  # ticks that are due when the machine has no time for more than what it must do
    # Silence after the last speech that a tick must have heard for its hypothesis to be complete.
    tail: int = SAMPLE_RATE * 3 // 20
    # Silence that closes a segment which is at least `roll` long.
    pause: int = SAMPLE_RATE * 7 // 10
    # Silence behind the end of a sentence that does so, too, where `roll` is not 0.
    sentence_pause: int = SAMPLE_RATE * 3 // 10
    roll: int = 0  # length from which on any pause is a good place to begin anew
    # Probability of the end of a sentence from which on a shorter segment is complete, too. Parts
    # of a sentence that are heard apart lose words and signs at their edges.
    ended: float = 0.5
    long_pause: int = SAMPLE_RATE * 3  # silence that closes any segment
    # Longest open segment; beyond it the segment is cut at a quiet place.
    cap: int = SAMPLE_RATE * 14
    search: int = SAMPLE_RATE  # audio among which that place is sought
    lead: int = SAMPLE_RATE // 2  # audio kept before the first speech
    lead_in: int = SAMPLE_RATE // 10  # silence put in front of every segment
    # Audio of a segment, padding included, before which nothing is committed.
    warm_up: int = SAMPLE_RATE * 7 // 10
    # A look at almost the same audio makes almost the same mistakes, and the more of them, the less
    # the model is sure. The last one holds for all tokens.
    evidence: tuple[Evidence, ...] = (Evidence(-math.inf, SAMPLE_RATE * 3 // 4),)
    # Log-probability of a token below which its word, said all the same, does not stand in front of
    # what follows.
    improbable: float = math.log(0.3)
    # New audio during which a word must have had the same letters to be said for good, whatever
    # signs stood before it; 0: they matter for ever.
    letters: int = SAMPLE_RATE * 3 // 2
    # Share of the looks within that audio, the newest among them, that must have had them. Who
    # writes "ha sido" and "hacido" by turns for so long knows no more about it later.
    letters_share: float = 0.6
    held_words: int = 1  # words at the edge of the audio that wait all the same
    # New audio during which all must have been heard alike to be said for good with these words:
    # while others are heard in the background, no silence says that none will follow.
    settled: int = SAMPLE_RATE
    # Audio of a segment after which, where nobody told the language, a turn that has others before
    # it is heard by itself again, for its language alone.
    language_checks: tuple[int, ...] = (SAMPLE_RATE, SAMPLE_RATE * 2)
    # Speech of a segment from which on a look is better repeated by itself, if what was said before
    # did it harm.
    stray: int = SAMPLE_RATE * 3 // 2
    most_lost: int = 2  # such looks, from which on all others of the segment are, too
    max_samples: int = SAMPLE_RATE * 3600  # longest turn or file, for whoever feeds it
    echoes: bool = False  # whether the model may write a client's prompt as if it were said
    draft: bool = True  # whether the last hypothesis is verified in one pass

    def delayed(self, delay: Delay | None) -> LiveConfig:
        """For a session that asks for this delay. Who waits longer is heard less often, too: the
        looks of a long wait say little more for being many."""
        if delay is None:
            return self
        factor = DELAYS[delay]
        return replace(
            self,
            tick=round(self.tick * max(1.0, factor)),
            evidence=tuple(
                replace(item, samples=round(item.samples * factor)) for item in self.evidence
            ),
            letters=round(self.letters * factor),
            settled=round(self.settled * factor),
        )

    def is_complete(self, length: int, silence: int, ends: float) -> bool:
        """Whether a segment is closed. length: from its beginning to the end of its speech.
        silence: behind that. ends: how probably a sentence ends there."""
        is_long, is_sentence = length >= self.roll, ends >= self.ended
        if silence >= self.pause:
            # A good place to begin anew is behind a sentence, or behind much.
            return silence >= self.long_pause or is_long or is_sentence
        if silence >= self.sentence_pause and self.roll and is_long and is_sentence:
            return True
        # Any breath is better than a word that is cut by the cap, which is near.
        is_near = length >= self.cap * (3 if is_sentence else 3.5) / 4
        return silence >= self.tail and is_near

    @property
    def most_evidence(self) -> int:
        """Samples that a word waits for at most."""
        return max(item.samples for item in self.evidence)

    @property
    def oldest_look(self) -> int:
        """Samples before now from which on looks still count."""
        return max(self.letters, self.most_evidence, self.settled, self.stray)
