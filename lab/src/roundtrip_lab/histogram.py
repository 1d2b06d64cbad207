"""Histograms as Roundtrip stores them: the highest value of each bucket in nanoseconds, and its count.

All runs use the same buckets, so histograms merge by adding counts. A percentile of merged runs is as exact
as that of one run: within RELATIVE_ERROR.
"""

from dataclasses import dataclass, field

import numpy as np

RELATIVE_ERROR = 0.001
# Buckets of 3 significant digits: 2048 of 1 ns, then 1024 for each further power of two.
SUB_BUCKET_BITS = 11
HIGHEST_NS = (1 << 42) - 1
# No run has more calls or a larger sum (two years). Sums over millions of runs then fit into 63 bits, or are
# computed as floating-point numbers.
MOST_CALLS = 1 << 40
LARGEST_SUM_NS = 1 << 56


@dataclass
class Histogram:
    """A histogram of durations in nanoseconds."""

    count: int = 0
    min_ns: int | None = None
    max_ns: int | None = None
    sum_ns: int = 0
    clamped: int = 0
    buckets: dict[int, int] = field(default_factory=dict)

    @classmethod
    def stored(cls, form: dict) -> "Histogram":
        """Reads a histogram of `run.json`. Raises ValueError if it is inconsistent."""
        if (form["version"], form["unit"], form["significant_digits"]) != (1, "ns", 3):
            raise ValueError("a histogram with a format other than version 1, ns, 3 digits")
        if len(dict(form["counts"])) != len(form["counts"]):
            raise ValueError("a histogram has a bucket twice")
        of = cls(form["count"], form["min_ns"], form["max_ns"], form["sum_ns"], form["clamped"], dict(form["counts"]))
        of.check(list(of.buckets))
        return of

    def check(self, ends_ns: list[int]) -> None:
        """Raises ValueError if the numbers contradict each other, or are larger than any run's.

        `ends_ns` are the buckets in the order in which they are stored.
        """
        counts, ends = list(self.buckets.values()), (self.min_ns, self.max_ns)
        if sum(counts) != self.count or min(counts, default=1) < 1:
            raise ValueError("a histogram's count is not the sum of its buckets")
        if not 0 <= self.clamped <= self.count <= MOST_CALLS or not 0 <= self.sum_ns <= LARGEST_SUM_NS:
            raise ValueError("a histogram's count or sum is not plausible")
        if not self.count:
            if ends != (None, None) or self.sum_ns:
                raise ValueError("a histogram without durations has a minimum, a maximum or a sum")
            return
        if None in ends or not 0 <= self.min_ns <= self.max_ns <= LARGEST_SUM_NS:
            raise ValueError("a histogram's minimum and maximum contradict each other or its count")
        if ends_ns != sorted(ends_ns) or not 0 <= ends_ns[0] <= ends_ns[-1] <= HIGHEST_NS:
            raise ValueError("a histogram's buckets are not in ascending order, or lie outside of the range")
        if (highest_in_bucket(np.array(ends_ns)) != ends_ns).any():
            raise ValueError("a histogram has a bucket that no run has")
        outer = highest_in_bucket(np.minimum(ends, HIGHEST_NS)).tolist()
        if outer != [ends_ns[0], ends_ns[-1]] or (self.clamped > 0) != (self.max_ns > HIGHEST_NS):
            raise ValueError("a histogram's minimum or maximum lies outside of its buckets")
        if self.clamped > self.buckets[ends_ns[-1]]:
            raise ValueError("more durations lie above the highest bucket than it counts")
        if not self.count * self.min_ns <= self.sum_ns <= self.count * self.max_ns:
            raise ValueError("a histogram's sum contradicts its minimum, maximum and count")

    @classmethod
    def of(cls, durations_ns: list[int]) -> "Histogram":
        """Counts durations."""
        if not durations_ns:
            return cls()
        values = np.array(durations_ns, dtype=np.int64)
        highest, counts = np.unique(highest_in_bucket(np.minimum(values, HIGHEST_NS)), return_counts=True)
        clamped = int((values > HIGHEST_NS).sum())
        buckets = dict(zip(highest.tolist(), counts.tolist(), strict=True))
        return cls(len(values), int(values.min()), int(values.max()), int(values.sum()), clamped, buckets)

    def merge(self, other: "Histogram") -> None:
        """Adds the counts of another histogram."""
        ends = [h for h in (self, other) if h.count]
        self.min_ns = min((h.min_ns for h in ends), default=None)
        self.max_ns = max((h.max_ns for h in ends), default=None)
        self.count += other.count
        self.sum_ns += other.sum_ns
        self.clamped += other.clamped
        for value, count in other.buckets.items():
            self.buckets[value] = self.buckets.get(value, 0) + count

    def percentile_ns(self, percent: float) -> int | None:
        """The percentile, as Roundtrip computes it: the top of the bucket with that rank, within minimum and maximum.

        None if there are too few durations to distinguish it from the maximum.
        """
        if not resolvable(self.count, percent):
            return None
        rank = max(1, np.ceil(percent / 100 * self.count * (1 - 1e-12)))
        values = sorted(self.buckets)
        reached = np.cumsum([self.buckets[value] for value in values])
        value = values[int(np.searchsorted(reached, rank))]
        return min(max(value, self.min_ns), self.max_ns)


def resolvable(count: int, percent: float) -> bool:
    """Whether at least one of `count` durations is expected above the percentile."""
    return count * (100 - percent) >= 100 * (1 - 1e-9)


def highest_in_bucket(values_ns: np.ndarray) -> np.ndarray:
    """The highest value of each value's bucket."""
    # frexp: values = mantissa * 2^exponent, 0.5 <= mantissa < 1: `exponent` is the number of bits.
    _, bits = np.frexp(values_ns.astype(np.float64))
    shift = np.maximum(bits - SUB_BUCKET_BITS, 0).astype(np.int64)
    return ((values_ns >> shift) + 1 << shift) - 1
