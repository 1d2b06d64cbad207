"""The columns of the data set's two tables. docs/lab.md explains each; a test compares both."""

import pyarrow as pa

# A column that an older reader would misread gets a new version. A new column does not.
VERSION = 1
# Where the time of a write goes, as Roundtrip names it. Together they are all of it.
LAYERS = (
    "device", "irq", "block", "held", "wake", "helper", "stolen", "fs", "preempted", "platform", "unexplained",
)  # fmt: skip

BUCKETS = pa.list_(pa.struct([("le_ns", pa.int64()), ("count", pa.int64())]))
LABELS = pa.map_(pa.string(), pa.string())

# What a row is about. Rows that agree in all of it may be merged.
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

# What was counted. All of it merges by adding, but for the two ends.
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

# The writes whose time was divided among the layers, and each layer's part. Null where none was.
DIVIDED = [
    ("divided_calls", pa.int64()),
    ("divided_ns", pa.int64()),
    *[(f"{layer}_ns", pa.int64()) for layer in LAYERS],
]

# What files of this version may lack, because it came later: null there.
ADDED = {name for name, _ in DIVIDED}

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
    ]
)

# One row for each file and key: all of the file's runs, merged.
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
    ]
)
