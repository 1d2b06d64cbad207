"""Converts rows of a data set for other dashboards and databases."""

import json
import re

import pandas as pd

from roundtrip_lab import __version__

# One figure each; all of them in nanoseconds.
FIGURES = ("p50_ns", "p90_ns", "p99_ns", "max_ns")
COLUMNS = ["run_id", "date", "device", "build", "kernel", "machine", "driver", "series", "test", "partial", "calls",
           "missed", "deadline_ns", *FIGURES]  # fmt: skip


def result(row: pd.Series, share: float) -> str:
    """`pass` or `fail` by the share of missed deadlines; `unknown` for a run that a signal ended."""
    if not pd.isna(row.partial) and bool(row.partial):
        return "unknown"
    if pd.isna(row.missed) or not row.calls:
        return "pass"
    return "fail" if row.missed / row.calls > share else "pass"


def word(text: object) -> str:
    """A name for LAVA and KCIDB. Replaces other characters, so that text cannot end or start a signal."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", str(text)).strip("-") or "none"


def lava(rows: pd.DataFrame, share: float) -> str:
    """LAVA result signals, one per figure and series."""
    lines = []
    for row in rows.itertuples():
        verdict = result(row, share)
        for figure in FIGURES:
            name = f"{word(row.series)}-{figure.removesuffix('_ns')}"
            value = getattr(row, figure)
            measured = "" if pd.isna(value) else f" MEASUREMENT={int(value)} UNITS=ns"
            lines.append(f"<LAVA_SIGNAL_TESTCASE TEST_CASE_ID={name} RESULT={verdict}{measured}>")
    return "".join(f"{line}\n" for line in lines)


def kcidb(rows: pd.DataFrame, share: float, origin: str, builds: dict[str, str]) -> str:
    """A KCIDB report, version 5.3: one test per series, with the p99 as its number."""
    words = {"pass": "PASS", "fail": "FAIL", "unknown": "ERROR"}
    tests = []
    for row in rows.itertuples():
        test = {
            "id": f"{origin}:{row.run_id}-{word(row.series)}",
            "origin": origin,
            "build_id": builds.get(row.build, f"{origin}:{clean(row.build)}"),
            "path": f"roundtrip.{word(row.test)}.{word(row.series)}",
            "status": words[result(row, share)],
            "environment": {"comment": clean(row.device)},
            "misc": {name: plain(getattr(row, name)) for name in ("calls", "missed", "deadline_ns", "driver", *FIGURES)},
        }
        if not pd.isna(row.p99_ns):
            test["number"] = {"value": int(row.p99_ns) / 1e9, "unit": "s", "prefix": "metric"}
        test["misc"]["roundtrip_lab"] = __version__
        tests.append(test)
    return json.dumps({"version": {"major": 5, "minor": 3}, "tests": tests}, indent=1, ensure_ascii=True) + "\n"


def clean(text: object) -> str:
    """Removes NUL, which KCIDB rejects."""
    return str(text).replace("\0", "") if not pd.isna(text) else "none"


def plain(value: object) -> object:
    """Converts a value to a JSON type."""
    if pd.isna(value):
        return None
    return value.item() if hasattr(value, "item") else value


def openmetrics(rows: pd.DataFrame) -> str:
    """OpenMetrics: the newest run of each device and series, in seconds."""
    from prometheus_client.core import CollectorRegistry, GaugeMetricFamily
    from prometheus_client.openmetrics.exposition import generate_latest

    names = ["device", "build", "kernel", "driver", "series"]
    newest = rows.sort_values("date").drop_duplicates(["device", "series"], keep="last")
    latency = GaugeMetricFamily("roundtrip_latency_seconds", "A percentile of a run's durations.",
                                labels=[*names, "figure"], unit="seconds")  # fmt: skip
    calls = GaugeMetricFamily("roundtrip_run_calls", "Calls of the newest run.", labels=names)
    missed = GaugeMetricFamily("roundtrip_run_missed_calls", "Calls that missed the deadline.", labels=names)
    for row in newest.itertuples():
        labels = ["" if pd.isna(getattr(row, name)) else str(getattr(row, name)) for name in names]
        for figure in FIGURES:
            if not pd.isna(getattr(row, figure)):
                latency.add_metric([*labels, figure.removesuffix("_ns")], int(getattr(row, figure)) / 1e9)
        calls.add_metric(labels, int(row.calls))
        if not pd.isna(row.missed):
            missed.add_metric(labels, int(row.missed))

    class Rows:
        """The method that the library calls to get the metrics."""

        def collect(self) -> list:
            return [latency, calls, missed]

    registry = CollectorRegistry()
    registry.register(Rows())
    return generate_latest(registry).decode()
