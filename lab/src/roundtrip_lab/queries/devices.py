"""Devices that are worse than others of the same model."""

import numpy as np
import pandas as pd
from scipy import special

from roundtrip_lab.engines import Engine
from roundtrip_lab.queries.filters import NONE, Filters
from roundtrip_lab.queries.percentiles import Z_95
from roundtrip_lab.words import count_of

# Its part of the 1% that regressions, changes and outliers share on a healthy fleet.
ALPHA = 0.005
# Devices with fewer nights are not judged.
LEAST_NIGHTS = 3
# Fewer devices do not show what is usual.
LEAST_PEERS = 10
FIGURES = ("p50", "p99")
POWERS = (1, 2, 3, 4)
# The part of the devices that says how much they differ, in deviations; it is settled after so many rounds.
TRIM, ROUNDS = 4.0, 5
# The largest part of the devices that may be faulty.
FAULTY = 0.1
# Degrees of freedom that this costs. A test draws fleets of 10 devices and more, and counts false alarms.
LOST = 6
# A histogram's: devices do not differ by less.
RESOLUTION = 0.001
# Below, a gamma distribution is normal to all digits.
LEAST_SKEW = 1e-4


def worst_devices(engine: Engine, filters: Filters = Filters(), limit: int = 20) -> pd.DataFrame:
    """Devices by share of missed deadlines (the lower end of its interval), then by mean."""
    rows = filters.of(engine.series)
    each = rows.group_by(["series", "device"]).agg(
        runs=rows.count(),
        calls=rows.calls.sum(),
        missed=rows.missed.sum(),
        max_ns=rows.max_ns.max(),
        mean_ns=rows.sum_ns.cast("float64").sum() / rows.calls.sum(),
    )
    calls, share = each.calls.cast("float64"), each.missed.fill_null(0) / each.calls
    z2 = Z_95**2
    spread = Z_95 * (share * (1 - share) / calls + z2 / (4 * calls * calls)).sqrt()
    each = each.filter(each.calls > 0).mutate(
        missed_share=each.missed / each.calls, low=(share + z2 / (2 * calls) - spread) / (1 + z2 / calls)
    )
    order = [each.low.desc(), each.mean_ns.desc(), each.series, each.device]
    answer = engine.run(each.order_by(order).limit(limit))
    answer["missed"] = answer["missed"].astype("Int64")
    return answer[["series", "device", "runs", "calls", "mean_ns", "max_ns", "missed", "missed_share", "low"]]


def outliers(engine: Engine, filters: Filters = Filters(), alpha: float = ALPHA) -> pd.DataFrame:
    """Devices whose typical call or tail differs from that of their peers.

    A run is compared with the runs of the same series, model, build and day, as the logarithm of its p50 and p99.
    A device is the mean of its nights. How far healthy devices lie from the middle has two parts: devices differ,
    which is assumed to be normal, and so do the nights of one device. The nights may be skewed, as a tail is, and
    they count less the more there are.

    The answer names a healthy device with a probability of at most `alpha`. It does not grow with the number of
    devices, faulty devices or series.
    """
    rows = filters.of(engine.series)
    rows = rows.filter(rows.day.notnull() & (rows.p50_ns > 0))
    figures = {name: rows[f"{name}_ns"].cast("float64").ln() for name in FIGURES}
    rows = rows.select("series", "device", "build", "day", model=rows.model.fill_null(NONE), **figures)
    compared = engine.key(rows, ["series", "model", "build", "day"])
    rows = rows.mutate(**compared)
    peers = rows.group_by(list(compared)).agg(**{f"{name}_peers": rows[name].mean() for name in FIGURES})
    rows = rows.join(peers, list(compared))
    rows = rows.mutate(**{name: rows[name] - rows[f"{name}_peers"] for name in FIGURES})
    powers = {f"{n}_{power}": (rows[n] ** power if power > 1 else rows[n]).mean() for n in FIGURES for power in POWERS}
    every = engine.run(rows.group_by(["series", "model", "device"]).agg(nights=rows.count(), **powers))
    devices = every[every["nights"] >= LEAST_NIGHTS]
    tests = [judged(group, name) for _, group in devices.groupby(["series", "model"]) if len(group) >= LEAST_PEERS
             for name in FIGURES]  # fmt: skip
    columns = ["series", "model", "device", "figure", "nights", "ratio", "deviations"]
    if not tests:
        answer = pd.DataFrame(columns=columns)
        answer.attrs["lacks"] = lacking(every)
        return answer
    answer = named(pd.concat(tests, ignore_index=True), alpha)
    answer["size"] = answer["deviations"].abs()
    order = ["size", "series", "device", "figure"]
    return answer.sort_values(order, ascending=[False, True, True, True], ignore_index=True)[columns]


def lacking(every: pd.DataFrame) -> str:
    """What the largest group of peers lacks to be judged."""
    if every.empty:
        return f"0 devices; needs {LEAST_PEERS}"
    groups = every.groupby(["series", "model"])["nights"]
    largest = groups.size().idxmax()
    devices, nights = groups.size()[largest], int(groups.max()[largest])
    return f"{count_of(devices, 'device')} of one model, {count_of(nights, 'night')}; needs {LEAST_PEERS} and {LEAST_NIGHTS}"


def judged(group: pd.DataFrame, name: str) -> pd.DataFrame:
    """One figure of the devices of one series and model: how far each is from the middle, and how likely that is."""
    mean, nights = group[f"{name}_1"], group["nights"]
    noise, third, fourth = of_nights(group, name)
    far = mean - mean.median()
    variance = of_devices(far.to_numpy(), noise / nights.to_numpy()) + noise / nights
    deviations = far / np.sqrt(variance)
    skew, heavy = third / nights**2 / variance**1.5, fourth / nights**3 / variance**2
    p = tails(deviations.to_numpy(), skew.to_numpy(), heavy.to_numpy(), len(group) - LOST)
    return group[["series", "model", "device", "nights"]].assign(
        figure=name, ratio=np.exp(far), deviations=deviations, p=p
    )


def of_nights(group: pd.DataFrame, name: str) -> tuple[float, float, float]:
    """The second, third and fourth cumulant of one night of a device, from all devices together."""
    n, first, second, third, fourth = group["nights"], *(group[f"{name}_{power}"] for power in POWERS)
    squares, cubes = n * (second - first**2), n * (third - 3 * first * second + 2 * first**3)
    fourths = n * (fourth - 4 * first * third + 6 * first**2 * second - 3 * first**4)
    # The mean of so few nights lies nearer to them than the true one: each sum is smaller by what divides it.
    variance = max(0.0, squares.sum() / (n - 1).sum())
    normal = 3 * variance**2 * (n * (1 - 1 / n) ** 2).sum()
    heavy = (fourths.sum() - normal) / (n * ((1 - 1 / n) ** 4 + (n - 1) / n**4)).sum()
    return variance, cubes.sum() / ((n - 1) * (n - 2) / n).sum(), max(0.0, heavy)


def of_devices(far: np.ndarray, noise: np.ndarray) -> float:
    """The variance between devices without that of their nights.

    Devices beyond TRIM deviations do not count: faulty ones would hide each other. All others count in full, so
    the spread of many devices is known almost as well as if none were left out. If a larger part than FAULTY lies
    beyond, these are no faults but a second kind of device, and all count.
    """
    inside, variance = np.abs(far) <= TRIM * np.median(np.abs(far)) / special.ndtri(0.75), 0.0
    for _ in range(ROUNDS):
        if inside.mean() < 1 - FAULTY:
            return max(float((far**2 - noise).mean()), RESOLUTION**2)
        variance = max(0.0, float((far[inside] ** 2 - noise[inside]).mean()))
        inside = np.abs(far) <= TRIM * np.sqrt(variance + noise)
    return max(variance, RESOLUTION**2)


def tails(deviations: np.ndarray, skew: np.ndarray, heavy: np.ndarray, freedom: int) -> np.ndarray:
    """The probability that chance puts a healthy device as far out, on either side.

    The tail is that of the gamma distribution (Pearson's type III) that is as skewed, or has as much excess
    kurtosis, whichever is more; without either it is normal. Student's t adds that the spread is an estimate.
    """
    size = np.abs(deviations)
    most = np.maximum(np.sign(deviations) * skew, np.sqrt(heavy / 1.5))
    shape = 4 / np.maximum(most, LEAST_SKEW) ** 2
    gamma = special.gammaincc(shape, shape + size * np.sqrt(shape))
    one = np.where(most > LEAST_SKEW, gamma, special.ndtr(-size))
    return np.minimum(1, 2 * special.stdtr(freedom, special.ndtri(np.minimum(one, 0.5))))


def named(tests: pd.DataFrame, alpha: float) -> pd.DataFrame:
    """The tests of devices that differ.

    The tests of one device resemble each other, so they are one question (Simes). Devices are selected so that the
    answer names a healthy one with a probability of at most `alpha`, however many are faulty (Holm). Of a selected
    device, every test at the last level is named.
    """
    tests = tests.assign(place=tests.groupby("device")["p"].rank(method="first"))
    tests["of"] = tests.groupby("device")["p"].transform("size")
    tests["adjusted"] = tests["p"] * tests["of"] / tests["place"]
    devices = np.sort(tests.groupby("device")["adjusted"].min())
    levels = alpha / np.arange(len(devices), 0, -1)
    chosen = int(np.cumprod(devices <= levels).sum())
    level = levels[chosen - 1] if chosen else -1.0
    last = tests["place"].where(tests["adjusted"] <= level).groupby(tests["device"]).transform("max")
    return tests[tests["place"] <= last].copy()
