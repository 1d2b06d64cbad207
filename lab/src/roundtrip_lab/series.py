"""Turns a run's results into rows, one per set of durations that may be merged.

A row's histogram contains calls of one kind, measured under one plan. Its causes are nested rows.
"""

import hashlib
import json
from collections.abc import Iterator

from roundtrip_lab import layers
from roundtrip_lab.histogram import Histogram
from roundtrip_lab.known import Known

# Settings of a plan that only determine the amount of work, the output, or what else is kept.
AMOUNTS = {
    "amount", "budget_ns", "calls", "duration_ns", "events", "explain", "file", "iterations", "java",
    "keep_samples", "kilobytes", "latency_calls", "length", "limit", "record", "repetitions", "rounds",
    "buffer_kilobytes", "halt_trace", "strace", "verbose", "warm_up", "warm_up_ns",
}  # fmt: skip
# Settings with a separate column, or that list other measurements: neither changes the series.
COLUMNS = {
    "apis", "callers", "conditions", "deadline", "driver", "durabilities", "inheritance", "placements", "sizes_bytes",
    "stacks", "subject", "transports", "write",
}  # fmt: skip
PARTS = ["test", "driver", "stack", "inheritance", "caller", "transport", "placement", "client", "server", "code",
         "writer", "durability", "beside", "size_bytes", "time", "plan"]  # fmt: skip


def of(results: dict, known: Known) -> list[dict]:
    """All rows of a run's results."""
    rows: dict[str, dict] = {}
    for test, result in results.items():
        if test in TESTS:
            for row in TESTS[test](result, known):
                merge(rows, finish(row, result.get("plan", {})))
    return [stored(row) for row in rows.values()]


def finish(row: dict, plan: dict) -> dict:
    """Sets the row's series name, from everything that distinguishes it from other series."""
    kept = {key: value for key, value in plan.items() if key not in AMOUNTS | COLUMNS}
    if "write" in plan:
        kept |= {key: value for key, value in plan["write"].items() if key not in AMOUNTS | COLUMNS}
    if row["test"] == "observed_writes" and plan["file"] is not None:
        # For other tests `file` is only the file that Roundtrip wrote.
        kept["file"] = plan["file"]
    text = json.dumps(kept, sort_keys=True)
    row["plan"] = hashlib.sha256(text.encode()).hexdigest()[:8]
    row.setdefault("time", "call")
    row["series"] = " ".join(str(row[part]) for part in PARTS if row.get(part) not in (None, ""))
    if row.get("deadline_ns") is not None:
        row["series"] += f" {row['deadline_ns']}ns"
    return row


def merge(rows: dict[str, dict], row: dict) -> None:
    """Merges a row into the row of the same series, such as another pair, node or block."""
    before = rows.setdefault(row["series"], row)
    if before is not row:
        before["histogram"].merge(row["histogram"])
        before["causes"] = before.get("causes", []) + row.get("causes", [])
        for count in ("missed", "lost", "slow_calls", "explained", *layers.COLUMNS):
            if row.get(count) is not None:
                before[count] = (before.get(count) or 0) + row[count]
        if (row.get("worst_ns") or -1) > (before.get("worst_ns") or -1):
            before |= {name: row[name] for name in ("worst_ns", "worst")}


def stored(row: dict) -> dict:
    """The row with its histogram as columns."""
    histogram = row.pop("histogram")
    return {
        "missed": None, "lost": 0, "slow_calls": 0, "explained": 0, "causes": [], **dict.fromkeys(layers.COLUMNS),
        "worst_ns": None, "worst": None, "calls": histogram.count, "min_ns": histogram.min_ns, "max_ns": histogram.max_ns,
        "sum_ns": histogram.sum_ns, "clamped": histogram.clamped,
        "p50_ns": histogram.percentile_ns(50), "p90_ns": histogram.percentile_ns(90),
        "p99_ns": histogram.percentile_ns(99),
        "buckets": [{"le_ns": value, "count": histogram.buckets[value]} for value in sorted(histogram.buckets)],
    } | row  # fmt: skip


def policy(scheduling: dict) -> str:
    """A caller as Roundtrip's own tables name it: `other`, `fifo:99`, `other:nice-5`."""
    name = scheduling["policy"].removeprefix("SCHED_").lower()
    if scheduling["priority"]:
        return f"{name}:{scheduling['priority']}"
    return name + (f":nice{scheduling['nice']:+}" if scheduling["nice"] else "")


def driver(result: dict) -> str | None:
    """`emulated` or `kernel`; None if no driver was used."""
    return (result.get("backend") or {}).get("driver")


def causes(kept: list[dict], known: Known) -> dict:
    """What delayed kept slow calls or writes. An explanation belongs to the one with the same `start_ns`."""
    found = [known.explained[one["start_ns"]] for one in kept if one["start_ns"] in known.explained]
    rows = [{"call": one["call"], "latency_ns": one["latency_ns"]} | cause for one in found for cause in one["causes"]]
    worst = max(found, key=lambda one: one["latency_ns"], default=None)
    said = {"worst_ns": worst["latency_ns"], "worst": worst["words"]} if worst else {}
    return {"causes": rows, "slow_calls": len(kept), "explained": len(found)} | said


def latency(result: dict, known: Known) -> Iterator[dict]:
    """`ipc latency`: by stack, inheritance and caller; the call and its legs."""
    deadline = result["plan"]["deadline"]["ns"]
    kept = (result.get("explained") or {}).get("misses", [])
    for index, measured in enumerate(result["series"]):
        for number, pair in enumerate(measured["pairs"]):
            for caller in pair["callers"]:
                about = {
                    "test": "latency",
                    "driver": driver(result),
                    "stack": measured["stack"],
                    "inheritance": measured["inheritance"],
                    "caller": policy(caller["caller"]),
                    "size_bytes": result["plan"]["payload_bytes"],
                }
                slow = [
                    call["sample"]
                    for call in kept
                    if (call["series"], call["pair"]) == (index, number) and call["caller"] == caller["caller"]
                ]
                limit = {"deadline_ns": deadline}
                missed = limit | {"missed": caller["deadline"]["missed"]}
                yield about | timed(caller["latency"], "call") | missed | causes(slow, known)
                for leg in ("request", "handling", "reply"):
                    yield about | timed(caller[leg], leg)
                if caller["response"]:
                    missed = limit | {"missed": caller["response"]["missed"]}
                    yield about | timed(caller["response"]["time"], "response") | missed


def timed(histogram: dict, time: str) -> dict:
    """The columns of one kind of duration."""
    return {"time": time, "histogram": Histogram.stored(histogram)}


def observed(result: dict, known: Known) -> Iterator[dict]:
    """`ipc observe`: by the names of client and server, and by method."""
    deadline = result["plan"]["deadline"]["ns"]
    lost = result["unseen"]["lost_events"]
    for number, flow in enumerate(result["flows"]):
        about = {
            "test": "observed_calls",
            "driver": "kernel",
            "client": flow["client"]["name"],
            "server": flow["server"]["name"],
            "code": str(flow["code"]),
        }
        slow = [call for call in result["slow_calls"] if call["flow"] == number]
        missed = {"deadline_ns": deadline, "missed": flow["missed"], "lost": lost}
        yield about | timed(flow["latency"], "call") | missed | causes(slow, known)
        lost = 0
        for leg in ("request", "handling", "reply", "oneway"):
            if flow[leg]["count"]:
                yield about | timed(flow[leg], leg)


def baseline(result: dict, _: Known) -> Iterator[dict]:
    """`ipc baseline`: by transport, size and placement."""
    for cell in result["cells"]:
        yield {
            "test": "baseline",
            "driver": driver(cell),
            "transport": cell["transport"],
            "placement": cell["placement"],
            "size_bytes": cell["size_bytes"],
        } | timed(cell["latency"], "call")


def throughput(result: dict, _: Known) -> Iterator[dict]:
    """`ipc throughput`: only the calls that were timed individually."""
    for row in result["rows"]:
        if row["latency"]:
            about = {"test": "throughput", "stack": row["stack"], "size_bytes": row["size_bytes"]}
            yield about | {"driver": driver(result)} | timed(row["latency"], "call")


def workers(result: dict, _: Known) -> Iterator[dict]:
    """`ipc workers`: all callers merged."""
    plan = result["plan"]
    about = {"test": "workers", "stack": plan["stack"], "size_bytes": plan["size_bytes"]}
    yield about | {"driver": driver(result)} | timed(result["latency"], "call")


def traits(result: dict, _: Known) -> Iterator[dict]:
    """`ipc traits`: the rows with latencies."""
    for row in result["rows"]:
        for stack in ("binder", "hwbinder"):
            if "latency" in row[stack]:
                about = {"test": "traits", "stack": stack, "driver": driver(result)}
                yield about | timed(row[stack]["latency"], "call")


def disk(result: dict, writer: dict, size_bytes: int) -> dict:
    """The columns that distinguish writes, for both tests of writes."""
    path = result["path"]
    device = (path["device"] or {}).get("bus")
    return {
        "writer": writer["api"],
        "durability": writer["durability"],
        "size_bytes": size_bytes,
        "transport": " on ".join(filter(None, [path["file_system"], device])),
    }


def storage(result: dict, known: Known) -> Iterator[dict]:
    """`storage layers`: by writer and size; the time that the application waited, and its layers."""
    for measured in result["series"]:
        writer = result["writers"][measured["writer"]]
        about = disk(result, writer, measured["size_bytes"])
        parts = known.divided.get(("storage", writer["api"], writer["durability"], measured["size_bytes"]), {})
        # Writes of our own have no deadline: those that the recording explains are the slowest.
        made = (call for block in measured["blocks"] for call in block["calls"])
        slow = [call for call in made if call["start_ns"] in known.explained]
        yield {"test": "storage"} | about | timed(measured["latency"], "call") | parts | causes(slow, known)


def observed_writes(result: dict, known: Known) -> Iterator[dict]:
    """`storage observe`: by program and system call; threads and files are merged."""
    deadline = result["plan"]["deadline"]["ns"]
    lost = result["unseen"]["lost_events"]
    for number, row in enumerate(result["rows"]):
        about = {
            "test": "observed_writes",
            "client": row["process"]["name"],
            "code": row["call"],
            "durability": row["durable"],
        }
        missed = {"deadline_ns": deadline, "missed": row["missed"], "lost": lost}
        slow = [write for write in result["slow_writes"] if write["row"] == number]
        found = layers.stored(row["divided"]) | causes(slow, known)
        yield about | timed(row["latency"], "call") | missed | found
        lost = 0


def interference(result: dict, known: Known) -> Iterator[dict]:
    """`storage interference`: by condition. `alone` is the writer without the condition."""
    for compared in result["comparisons"]:
        for side, writer in (("alone", "writer"), ("beside", "writer_beside")):
            about = disk(result, result["writers"][compared[writer]], compared["size_bytes"])
            about["beside"] = "alone" if side == "alone" else compared["condition"]
            calls = [call for pair in compared["pairs"] for call in pair[side]["calls"]]
            durations = [call["end_ns"] - call["start_ns"] for call in calls]
            if min(durations, default=0) < 0:
                raise ValueError("a write that ends before it starts")
            alone = result["writers"][compared["writer"]]
            key = (side, compared["condition"], alone["api"], alone["durability"], compared["size_bytes"])
            parts = known.divided.get(key, {})
            yield {"test": "interference"} | about | {"histogram": Histogram.of(durations)} | parts


TESTS = {
    "baseline": baseline,
    "interference": interference,
    "latency": latency,
    "observed_calls": observed,
    "observed_writes": observed_writes,
    "storage": storage,
    "throughput": throughput,
    "traits": traits,
    "workers": workers,
}
