"""Tests that the lab says of a slow call or write what the binary says, as text, as JSON and on its page."""

import html
import json
import re
import subprocess

import pytest
from recorded import BINDER, WRITES


def said(roundtrip, run, *words):
    """What the binary prints about a run."""
    done = subprocess.run([roundtrip, *words, run], check=True, capture_output=True, text=True)
    return done.stdout


def worst(roundtrip, run):
    """The slowest call or write that the binary explains: how long it took, and the sentence."""
    document = json.loads(said(roundtrip, run, "explain", "--format", "json"))
    found = [(call["latency_ns"], call["explanation"]["verdict"]) for call in document["slow_calls"]]
    writes = (document.get("writes") or {}).get("slow_writes", [])
    found += [(write["end_ns"] - write["start_ns"], write["verdict"]) for write in writes]
    return max(found)


@pytest.mark.parametrize("run", [BINDER, WRITES], ids=["a call", "a write"])
def test_text_page_json_and_the_lab_say_the_same_of(command, tmp_path, roundtrip, run):
    latency_ns, sentence = worst(roundtrip, run)
    assert sentence in said(roundtrip, run, "explain")
    subprocess.run([roundtrip, "report", run, "-o", tmp_path / "page.html"], check=True, capture_output=True)
    page = (tmp_path / "page.html").read_text().partition("<script")[0]
    assert sentence in html.unescape(re.sub("<[^>]*>", "", page))
    command("collect", run, "--into", tmp_path / "set", "--roundtrip", roundtrip)
    for query in ("misses", "causes"):
        rows = json.loads(command("query", query, "--from", tmp_path / "set", "--format", "json").stdout)
        assert (latency_ns, sentence) in {(row["worst_ns"], row["worst"]) for row in rows}, query
        assert sentence in command("query", query, "--from", tmp_path / "set").stdout


def test_causes_of_writes_add_up_to_what_the_binary_says_they_lost(command, tmp_path, roundtrip):
    document = json.loads(said(roundtrip, WRITES, "explain", "--format", "json"))
    writes = document["writes"]["slow_writes"]
    lost_ns = sum(reason["lost_ns"] for write in writes for reason in write["reasons"])
    assert lost_ns > 0
    command("collect", WRITES, "--into", tmp_path / "set", "--roundtrip", roundtrip)
    rows = json.loads(command("query", "causes", "--from", tmp_path / "set", "--format", "json").stdout)
    assert sum(row["excess_ns"] for row in rows) == lost_ns
    assert {row["owner"] for row in rows} == {"writer"} and {row["explained"] for row in rows} == {len(writes)}
