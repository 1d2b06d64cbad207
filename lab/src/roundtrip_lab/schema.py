"""The columns of the data set's two tables. docs/lab.md explains each; a test compares both."""

import pyarrow as pa

# The version changes if an older reader would misread a column. A new column does not change it.
VERSION = 1
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

# Columns that older files of this version lack, because they were added later. They read as null.
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
    ]
)
