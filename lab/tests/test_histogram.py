"""Tests that histograms agree with those of Roundtrip."""

import json
import random
import subprocess

import numpy as np
import pytest
from recorded import RUNS

from roundtrip_lab.histogram import RELATIVE_ERROR, Histogram, highest_in_bucket


def histograms(value):
    """Every histogram in a document."""
    if isinstance(value, dict):
        if "significant_digits" in value:
            yield value
        for part in value.values():
            yield from histograms(part)
    elif isinstance(value, list):
        for part in value:
            yield from histograms(part)


def test_percentiles_equal_those_of_roundtrip(roundtrip):
    """Compares with the percentiles that `roundtrip show` computes from recorded runs."""
    compared = 0
    for run in sorted(RUNS.iterdir()):
        shown = subprocess.run([roundtrip, "show", run, "--format", "json"], check=True, capture_output=True).stdout
        for form in histograms(json.loads(shown)):
            read = Histogram.stored(form)
            for percentile in form["percentiles"]:
                assert read.percentile_ns(percentile["percent"]) == percentile["ns"]
                compared += 1
    assert compared > 100


def test_buckets_equal_those_that_roundtrip_stores():
    values = {value for run in RUNS.glob("*/run.json") for form in histograms(json.loads(run.read_text())) for value, _ in form["counts"]}
    values = np.array(sorted(values))
    assert len(values) > 1000
    assert (highest_in_bucket(values) == values).all()
    assert highest_in_bucket(np.array([0, 1, 2047, 2048, 2049, 4096, 4099])).tolist() == [
        0, 1, 2047, 2049, 2049, 4099, 4099,
    ]  # fmt: skip


def test_merged_histograms_equal_one_histogram_of_all_calls():
    source = random.Random(5)
    calls = [[int(source.lognormvariate(10, 2)) for _ in range(source.randrange(1, 300))] for _ in range(40)]
    merged = Histogram()
    for some in calls:
        merged.merge(Histogram.of(some))
    every = sorted(value for some in calls for value in some)
    assert (merged.count, merged.sum_ns, merged.min_ns, merged.max_ns) == (len(every), sum(every), every[0], every[-1])
    for percent in (1, 50, 90, 99, 99.9):
        exact = every[int(np.ceil(percent / 100 * len(every))) - 1]
        assert abs(merged.percentile_ns(percent) - exact) <= exact * RELATIVE_ERROR + 1


@pytest.mark.parametrize(
    "change",
    [
        {"count": 3},
        {"counts": [[10, 1], [10, 1]]},
        {"unit": "us"},
        {"significant_digits": 2},
        {"min_ns": None},
        {"sum_ns": 1 << 64},
        {"counts": [[-1, 2]]},
    ],
)
def test_an_inconsistent_histogram_is_refused(change):
    form = {"version": 1, "unit": "ns", "significant_digits": 3, "count": 2, "min_ns": 9, "max_ns": 11, "sum_ns": 20,
            "clamped": 0, "counts": [[9, 1], [11, 1]]}  # fmt: skip
    assert Histogram.stored(form).count == 2
    with pytest.raises(ValueError):
        Histogram.stored(form | change)
