"""The time of writes by layer, as columns. For observed writes, `run.json` contains it. For writes that Roundtrip
makes itself, only the recording contains it, and `roundtrip show` prints the mean of each layer.
"""

import csv
import io

from roundtrip_lab import schema

COLUMNS = [name for name, _ in schema.DIVIDED]
# The tests for which only the recording contains the layers of writes.
RECORDED = ("storage", "interference")
# Above this a sum cannot be computed from a mean to the nanosecond.
LARGEST_NS = 1 << 52

# The columns of each set of writes, by the key that `place` returns.
Divided = dict[tuple, dict[str, int]]


def recorded(document: dict) -> bool:
    """Whether a run has writes whose layers only the recording contains."""
    results = document["results"]
    return any((results.get(test) or {}).get("recorder") for test in RECORDED)


def stored(divided: dict | None) -> dict[str, int]:
    """The columns of writes whose layers are in `run.json`. Raises ValueError if they do not add up."""
    if divided is None:
        return {}
    found = columns(divided["calls"], {name: layer["sum_ns"] for name, layer in divided["layers"].items()})
    if found["divided_ns"] != divided["sum_ns"]:
        raise ValueError("the layers of writes do not add up to the writes")
    return found


def columns(calls: int, sums_ns: dict[str, int]) -> dict[str, int]:
    """The columns of this number of calls. A layer without a sum had no time."""
    unknown = set(sums_ns) - set(schema.LAYERS)
    if unknown:
        raise ValueError(f"an unknown layer: {min(unknown)}")
    return {"divided_calls": calls, "divided_ns": sum(sums_ns.values())} | {
        f"{layer}_ns": sums_ns.get(layer, 0) for layer in schema.LAYERS
    }


def of_figures(text: str) -> Divided:
    """Reads the CSV of `roundtrip show`: the means of calls, from which their sums can be computed exactly."""
    sums: dict[tuple, dict[str, int]] = {}
    calls: dict[tuple, int] = {}
    for line in csv.DictReader(io.StringIO(text)):
        layer, dot, what = line["metric"].removeprefix("alone.").partition(".")
        if line["test"] not in RECORDED or layer not in schema.LAYERS or dot + what != ".mean":
            continue
        key = place(line)
        calls[key] = int(line["samples"])
        sum_ns = round(float(line["value"]) * calls[key])
        if not 0 <= sum_ns < LARGEST_NS:
            raise ValueError(f"a sum of {sum_ns} ns")
        sums.setdefault(key, {})[layer] = sum_ns
    return {key: columns(calls[key], of_key) for key, of_key in sums.items()}


def place(line: dict[str, str]) -> tuple:
    """The key of the writes that a figure belongs to."""
    written = line["writer"], line["durability"], int(line["size_bytes"])
    if line["test"] == "storage":
        return "storage", *written
    side = "alone" if line["metric"].startswith("alone.") else "beside"
    return side, line["beside"], *written
