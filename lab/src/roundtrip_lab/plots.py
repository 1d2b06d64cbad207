"""The geometry of charts: turns figures into paths and ticks of an SVG. Must not know the data set."""

import math
from dataclasses import dataclass

import pandas as pd

WIDTH, HEIGHT = 920, 340
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 24, 44
# The axis begins where this share of calls is reached, so that the few fastest calls do not stretch it.
FIRST_SHARE = 0.001
UNITS = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")]


@dataclass
class Curve:
    """The calls of one build."""

    name: str
    kind: str
    path: str


@dataclass
class Picture:
    """Curves over two axes. A tick is a position and a text. `mark` is the deadline, if any."""

    curves: list[Curve]
    x: list[tuple[float, str]]
    y: list[tuple[float, str]]
    mark: tuple[float, str] | None
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def duration(ns: float) -> str:
    """Formats a duration with three digits and a unit, or `-` for a percentile of too few calls."""
    if pd.isna(ns):
        return "-"
    size, unit = next(((size, unit) for size, unit in UNITS if ns >= size), UNITS[-1])
    return f"{ns / size:.3g} {unit}"


def cumulated(counts: dict[str, pd.DataFrame], kinds: dict[str, str], deadline_ns: int | None) -> Picture | None:
    """The share of calls within each duration. Both axes are logarithmic; each step up is one more nine.

    `counts` contains for each build how many `calls` took at most `le_ns`, in ascending order. `kinds` contains how
    each build is drawn.
    """
    counts = {name: of for name, of in counts.items() if len(of)}
    if not counts:
        return None
    low = min(first(of) for of in counts.values())
    high = max(of["le_ns"].iloc[-1] for of in counts.values())
    if deadline_ns:
        low, high = min(low, deadline_ns), max(high, deadline_ns)
    low, high = math.log10(max(low, 1)) - 0.02, math.log10(max(high, 2)) + 0.02
    most = max(of["calls"].iloc[-1] for of in counts.values())
    top = max(1.0, math.log10(most))

    def x(ns: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(max(ns, 1)) - low) / (high - low)

    def y(nines: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * min(nines, top) / top

    def path(of: pd.DataFrame) -> str:
        total = of["calls"].iloc[-1]
        # The slowest call is at the number of nines that this number of calls can show.
        nines = [math.log10(total / max(total - calls, 1)) for calls in of["calls"]]
        points = [(x(ns), y(height)) for ns, height in zip(of["le_ns"], nines, strict=True) if x(ns) >= LEFT]
        start, steps = points[0], points[1:]
        return f"M{start[0]:.1f},{start[1]:.1f}" + "".join(f"H{across:.1f}V{up:.1f}" for across, up in steps)

    curves = [Curve(name, kinds[name], path(of)) for name, of in counts.items()]
    # The most important curves are drawn last, above the others.
    curves.sort(key=lambda curve: ("earlier", "worse", "before", "newest").index(curve.kind))
    mark = (x(deadline_ns), f"deadline {duration(deadline_ns)}") if deadline_ns else None
    return Picture(curves, ticks(low, high, x), shares(top, y), mark)


def first(of: pd.DataFrame) -> float:
    """The duration at which a curve begins to rise."""
    return float(of.loc[of["calls"] >= of["calls"].iloc[-1] * FIRST_SHARE, "le_ns"].iloc[0])


def ticks(low: float, high: float, x: callable) -> list[tuple[float, str]]:
    """Ticks at 1, 2 and 5 times each power of ten, or only at the powers if those would be too close together."""
    digits = (1, 2, 5) if high - low < 3.5 else (1,)
    values = [digit * 10**power for power in range(math.floor(low), math.ceil(high) + 1) for digit in digits]
    return [(x(ns), duration(ns)) for ns in values if low <= math.log10(ns) <= high]


def shares(top: float, y: callable) -> list[tuple[float, str]]:
    """Ticks at 0, 50%, 90%, 99% and so on, as far as the number of calls allows."""
    found = [(y(0), "0%"), (y(math.log10(2)), "50%")]
    for digits in range(1, int(top) + 1):
        found.append((y(digits), f"{100 - 10 ** (2 - digits):.{max(0, digits - 2)}f}%"))
    return found
