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
LARGEST = (1 << 63) - 1


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
        buckets = dict(form["counts"])
        if len(buckets) != len(form["counts"]) or sum(buckets.values()) != form["count"]:
            raise ValueError("a histogram's count is not the sum of its buckets")
        of = cls(form["count"], form["min_ns"], form["max_ns"], form["sum_ns"], form["clamped"], buckets)
        if (of.count == 0) != (of.min_ns is None) or (of.min_ns is None) != (of.max_ns is None):
            raise ValueError("a histogram's minimum and maximum contradict its count")
        numbers = [of.count, of.sum_ns, of.clamped, of.max_ns or 0, *buckets]
        if min(numbers) < 0 or max(numbers) > LARGEST:
            raise ValueError("a histogram's number does not fit into 63 bits")
        return of

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
        """The percentile, as Roundtrip computes it: the top of the bucket with that rank, within minimum and maximum."""
        if not self.count:
            return None
        rank = max(1, np.ceil(percent / 100 * self.count * (1 - 1e-12)))
        values = sorted(self.buckets)
        reached = np.cumsum([self.buckets[value] for value in values])
        value = values[int(np.searchsorted(reached, rank))]
        return min(max(value, self.min_ns), self.max_ns)


def highest_in_bucket(values_ns: np.ndarray) -> np.ndarray:
    """The highest value of each value's bucket."""
    # frexp: values = mantissa * 2^exponent, 0.5 <= mantissa < 1: `exponent` is the number of bits.
    _, bits = np.frexp(values_ns.astype(np.float64))
    shift = np.maximum(bits - SUB_BUCKET_BITS, 0).astype(np.int64)
    return ((values_ns >> shift) + 1 << shift) - 1
