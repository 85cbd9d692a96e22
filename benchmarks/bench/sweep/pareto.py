"""What is worth choosing among: no other point is both sooner and more. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

# Colours that stay apart for the colour-blind (Okabe and Ito, 2008); marks differ as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
WIDTH, HEIGHT, EDGE = 640, 360, 56  # pixels
NUM_TICKS = 4


@dataclass(frozen=True, slots=True)
class Trade:
    """seconds: that text takes, the less the better. amount: seconds of audio a second, the more
    the better. series: what is drawn alike; label: of the point."""

    seconds: float
    amount: float
    series: str
    label: str


def front(trades: Sequence[Trade]) -> list[Trade]:
    """Those that no other one beats, from the soonest to the most. Of equals all."""
    best: list[Trade] = []
    for trade in sorted(trades, key=lambda one: (one.seconds, -one.amount)):
        last = best[-1] if best else None
        is_equal = last is not None and (trade.seconds, trade.amount) == (last.seconds, last.amount)
        if last is None or trade.amount > last.amount or is_equal:
            best.append(trade)
    return best


def plot(trades: Sequence[Trade], seconds: str, amount: str) -> str:
    """An SVG: every point, and a line through the front. seconds, amount: what the axes say."""
    if not trades:
        return ""
    right = 1.1 * max(one.seconds for one in trades) or 1.0
    top = 1.1 * max(one.amount for one in trades) or 1.0

    def at(trade: Trade) -> tuple[float, float]:
        x = EDGE + (WIDTH - 2 * EDGE) * trade.seconds / right
        return x, HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * trade.amount / top

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img">']
    parts += _axes(right, top, seconds, amount)
    best = front(trades)
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(at, best))
    parts.append(f'<polyline points="{line}" fill="none" stroke="#999" stroke-dasharray="4 3"/>')
    names = list(dict.fromkeys(one.series for one in trades))
    for one in trades:
        number = names.index(one.series)
        parts.append(_mark(*at(one), number, is_best=one in best, about=one))
    for number, name in enumerate(names):
        y = 16 + 16 * number
        parts.append(_mark(EDGE + 12, y, number, is_best=True))
        parts.append(f'<text x="{EDGE + 24}" y="{y + 4}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"])


def _axes(right: float, top: float, seconds: str, amount: str) -> list[str]:
    low, high = HEIGHT - EDGE, EDGE
    parts = [
        f'<path d="M{EDGE} {high}V{low}H{WIDTH - EDGE}" fill="none" stroke="#000"/>',
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 12}" text-anchor="middle">{escape(seconds)}</text>',
        f'<text transform="translate(14 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">'
        f"{escape(amount)}</text>",
    ]
    for tick in range(NUM_TICKS + 1):
        share = tick / NUM_TICKS
        x, y = EDGE + (WIDTH - 2 * EDGE) * share, low - (low - high) * share
        parts.append(f'<text x="{x:.0f}" y="{low + 18}" text-anchor="middle">{right * share:.2g}')
        parts.append(f'</text><text x="{EDGE - 6}" y="{y + 4:.0f}" text-anchor="end">')
        parts.append(f"{top * share:.2g}</text>")
    return parts


def _mark(x: float, y: float, number: int, *, is_best: bool, about: Trade | None = None) -> str:
    """A square, a circle or a diamond; hollow where something beats it."""
    colour = COLOURS[number % len(COLOURS)]
    look = f'fill="{colour if is_best else "none"}" stroke="{colour}" stroke-width="1.5"'
    title = "" if about is None else f"<title>{escape(about.label)}</title>"
    shapes = (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" {look}>',
        f'<rect x="{x - 4.5:.1f}" y="{y - 4.5:.1f}" width="9" height="9" {look}>',
        f'<path d="M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6-6z" {look}>',
    )
    shape = shapes[number % len(shapes)]
    return f"{shape}{title}</{shape[1 : shape.index(' ')]}>"
