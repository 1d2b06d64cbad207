"""The columns of the data set's two tables. docs/lab.md explains each; a test compares both."""

import pyarrow as pa

from roundtrip_lab.histogram import LARGEST_SUM_NS, MOST_CALLS

# The version changes if an older reader would misread a column. A new column does not change it.
VERSION = 2
# The layers of a write, as Roundtrip names them. Together they are its whole duration.
LAYERS = (
    "device", "irq", "block", "held", "wake", "helper", "stolen", "fs", "preempted", "platform", "unexplained",
)  # fmt: skip

BUCKETS = pa.list_(pa.struct([("le_ns", pa.int64()), ("count", pa.int64())]))
LABELS = pa.map_(pa.string(), pa.string())

# The key of a row. Rows with equal keys may be merged.
KEY = [
    ("day", pa.date32()),
    ("build", pa.string()),
    ("kernel", pa.string()),
    ("machine", pa.string()),
    ("model", pa.string()),
    ("driver", pa.string()),
    ("labels", LABELS),
    ("series", pa.string()),
    ("test", pa.string()),
    ("time", pa.string()),
    ("stack", pa.string()),
    ("inheritance", pa.string()),
    ("caller", pa.string()),
    ("transport", pa.string()),
    ("placement", pa.string()),
    ("client", pa.string()),
    ("server", pa.string()),
    ("code", pa.string()),
    ("writer", pa.string()),
    ("durability", pa.string()),
    ("beside", pa.string()),
    ("size_bytes", pa.int64()),
    ("plan", pa.string()),
    ("deadline_ns", pa.int64()),
]

# Counts. They merge by adding, except for the minimum and the maximum.
COUNTS = [
    ("calls", pa.int64()),
    ("missed", pa.int64()),
    ("min_ns", pa.int64()),
    ("max_ns", pa.int64()),
    ("sum_ns", pa.int64()),
    ("clamped", pa.int64()),
    ("lost", pa.int64()),
    ("slow_calls", pa.int64()),
    ("explained", pa.int64()),
    ("buckets", BUCKETS),
]

# The writes whose time was divided among the layers, and the time in each layer. Null if there are none.
DIVIDED = [
    ("divided_calls", pa.int64()),
    ("divided_ns", pa.int64()),
    *[(f"{layer}_ns", pa.int64()) for layer in LAYERS],
]

# The slowest call or write that was explained, and what Roundtrip says about it. Null if there is none.
WORST = [("worst_ns", pa.int64()), ("worst", pa.string())]

# Columns that older files of this version lack, because they were added later. They read as null.
ADDED = {name for name, _ in [*DIVIDED, *WORST]}

# One row for each run and series.
SERIES = pa.schema(
    [
        ("run_id", pa.string()),
        ("source", pa.string()),
        ("date", pa.string()),
        ("device", pa.string()),
        ("roundtrip_version", pa.string()),
        ("partial", pa.bool_()),
        ("warnings", pa.int64()),
        *KEY,
        *COUNTS,
        ("p50_ns", pa.int64()),
        ("p90_ns", pa.int64()),
        ("p99_ns", pa.int64()),
        (
            "causes",
            pa.list_(
                pa.struct(
                    [
                        ("call", pa.int64()),
                        ("latency_ns", pa.int64()),
                        ("kind", pa.string()),
                        ("owner", pa.string()),
                        ("who", pa.string()),
                        ("excess_ns", pa.int64()),
                    ]
                )
            ),
        ),
        *DIVIDED,
        *WORST,
    ]
)

# One row for each file and key: the merged runs of the file.
SUMS = pa.schema(
    [
        *KEY,
        ("runs", pa.int64()),
        *COUNTS,
        (
            "causes",
            pa.list_(
                pa.struct(
                    [
                        ("kind", pa.string()),
                        ("owner", pa.string()),
                        ("who", pa.string()),
                        ("causes", pa.int64()),
                        ("excess_ns", pa.int64()),
                    ]
                )
            ),
        ),
        *DIVIDED,
        *WORST,
    ]
)


def check(row: dict) -> None:
    """Raises ValueError if a row of `series` contradicts itself or has a number that no run has.

    Queries rely on this. The row's histogram was checked when it was read.
    """
    counted = {name: row.get(name) for name, kind in [*COUNTS, *DIVIDED, *WORST] if kind == pa.int64()}
    counted |= {name: row.get(name) for name in ("size_bytes", "deadline_ns")}
    for name, number in counted.items():
        if number is not None and not 0 <= number <= (LARGEST_SUM_NS if name.endswith("_ns") else MOST_CALLS):
            raise ValueError(f"{name} is {number}")
    for name, most in (("missed", "calls"), ("clamped", "calls"), ("explained", "slow_calls"), ("divided_calls", "calls")):
        if counted[name] is not None and counted[name] > counted[most]:
            raise ValueError(f"{name} ({counted[name]}) is larger than {most} ({counted[most]})")
    if sum(counted[f"{layer}_ns"] or 0 for layer in LAYERS) != (counted["divided_ns"] or 0):
        raise ValueError("the layers of writes do not add up to the writes")
    words = [row, dict(row["labels"]), *row["causes"]]
    if any("\0" in text for place in words for text in [*place, *place.values()] if isinstance(text, str)):
        raise ValueError("a name has the character NUL, which engines cannot look up")
    for cause in row["causes"]:
        if not 0 <= cause["excess_ns"] <= cause["latency_ns"] <= LARGEST_SUM_NS or not 0 <= cause["call"] <= MOST_CALLS:
            raise ValueError("a cause took longer than its call, or a negative time")
