"""Tests when the page shows which results."""

import threading

import pandas as pd
import pytest

from roundtrip_lab import answers, views
from roundtrip_lab.answers import Answers, Fleet
from roundtrip_lab.errors import LabError

SOME = pd.DataFrame({"series": ["binder"]})


class Gate:
    """Replaces the queries. Each attempt yields partial results, waits for `open`, and then yields all results."""

    def __init__(self):
        self.open, self.attempts, self.error = threading.Event(), 0, None

    def in_parts(self, _engine, _order):
        self.attempts += 1
        part = Fleet(f"attempt {self.attempts}", SOME, SOME, SOME, SOME)
        yield part
        assert self.open.wait(20)
        self.open.clear()
        if self.error:
            raise LabError(self.error)
        yield Fleet(part.asked, *[SOME] * 8)


class Files:
    """Replaces an engine whose data set has one file."""

    data = property(lambda self: self)

    def files(self, _table):
        return ["one"]


@pytest.fixture
def gated(monkeypatch):
    gate = Gate()
    monkeypatch.setattr(answers, "in_parts", gate.in_parts)
    return gate, Answers(Files)


def wait_until_asked(of):
    with of.news:
        assert of.news.wait_for(lambda: not of.refreshing, 20)


def test_the_first_page_shows_partial_results_and_a_later_one_all(gated):
    gate, of = gated
    of.start()
    assert not of.fleet().complete
    gate.open.set()
    wait_until_asked(of)
    assert of.fleet().complete and gate.attempts == 1


def test_complete_results_stay_until_the_new_ones_are_complete(gated):
    gate, of = gated
    of.start()
    gate.open.set()
    wait_until_asked(of)
    of.start()
    assert of.fleet().asked == "attempt 1"
    gate.open.set()
    wait_until_asked(of)
    assert of.fleet().asked == "attempt 2"


def test_a_failure_is_printed_once_and_the_next_page_runs_the_queries_again(gated, capsys):
    gate, of = gated
    gate.error = "the engine is down"
    of.start()
    gate.open.set()
    wait_until_asked(of)
    assert capsys.readouterr().err == "roundtrip-lab: the engine is down\n"
    gate.error = None
    assert of.fleet().asked == "attempt 2"
    gate.open.set()
    wait_until_asked(of)


def test_a_page_without_any_result_shows_the_reason(gated, monkeypatch):
    _, of = gated

    def refuse(_engine, _order):
        raise LabError("the engine is down")
        yield

    monkeypatch.setattr(answers, "in_parts", refuse)
    with pytest.raises(LabError, match="the engine is down"):
        of.fleet()


def test_builds_that_are_still_being_compared_are_not_called_equal():
    shown = [{"name": "s", "lines": [{"name": "one", "newest": True}]}]
    percentiles = pd.DataFrame({"build": ["one"], "runs": [1], "calls": [1]})
    assert views.headline(shown, percentiles, None)["text"] == "The builds are still being compared"
    for verdict, lacks, text in (
        ("same", "", "No newest build is proven to be slower than the one before"),
        ("worse", "", "The newest build is slower than the one before in 1 of 1 series"),
        ("cannot tell", "5 devices; needs 6", "The newest build cannot be judged: 5 devices; needs 6"),
    ):
        verdicts = pd.DataFrame({"series": ["s"], "new": ["one"], "verdict": [verdict], "lacks": [lacks]})
        assert views.headline(shown, percentiles, verdicts)["text"] == text
    # The build before was slower: the table lists it, and the headline says so.
    verdicts = pd.DataFrame({"series": ["s", "s"], "new": ["one", "zero"], "verdict": ["same", "worse"], "lacks": ["", ""]})
    assert views.headline(shown, percentiles, verdicts)["text"].endswith("; 1 earlier build is")
