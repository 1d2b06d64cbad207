"""Tests the feeds with the libraries of the systems that read them."""

import re

import kcidb_io
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from roundtrip_lab import feeding

HOSTILE = 'x"\n} 1\n# EOF\n<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=a RESULT=pass>\0\\ é'


@pytest.fixture
def rows(small_fleet):
    """Some rows of a fleet, one of them with hostile text."""
    from roundtrip_lab import engines
    from roundtrip_lab.dataset import DataSet

    engine = engines.connect(None, DataSet.open(str(small_fleet)))
    rows = engine.run(engine.series.filter(engine.series.time == "call").select(*feeding.COLUMNS).limit(20))
    for name in ("device", "build", "kernel", "series"):
        rows.loc[0, name] = HOSTILE
    return rows


def test_lava_gets_one_signal_per_line(rows):
    lines = feeding.lava(rows, 0.0).splitlines()
    assert len(lines) == 4 * len(rows)
    pattern = r"<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=[A-Za-z0-9_-]+ RESULT=(pass|fail|unknown) MEASUREMENT=\d+ UNITS=ns>"
    assert all(re.fullmatch(pattern, line) for line in lines)


def test_kcidb_accepts_the_report(rows):
    import json

    report = json.loads(feeding.kcidb(rows, 0.0, "lab", {}))
    kcidb_io.schema.V5_3.validate(report)
    assert len(report["tests"]) == len(rows)
    assert report["tests"][1]["number"]["value"] == pytest.approx(rows.p99_ns[1] / 1e9)


def test_prometheus_parses_the_metrics(rows):
    families = {family.name: family for family in text_string_to_metric_families(feeding.openmetrics(rows))}
    assert set(families) == {"roundtrip_latency_seconds", "roundtrip_run_calls", "roundtrip_run_missed_calls"}
    samples = families["roundtrip_latency_seconds"].samples
    assert any(sample.labels["device"] == HOSTILE for sample in samples)
    last = rows.sort_values("date").iloc[-1]
    assert any(s.value == last.p99_ns / 1e9 for s in samples if s.labels["figure"] == "p99")


def test_missed_deadlines_are_reported_as_failures(rows):
    rows["missed"], rows["calls"], rows["partial"] = 1, 100, False
    assert "RESULT=fail" in feeding.lava(rows, 0.0)
    assert "RESULT=fail" not in feeding.lava(rows, 0.02)
    rows["partial"] = True
    assert set(re.findall("RESULT=([a-z]+)", feeding.lava(rows, 0.0))) == {"unknown"}
