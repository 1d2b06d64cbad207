"""Runs Roundtrip to learn what delayed slow calls and where writes spent their time. Only Roundtrip reads recordings."""

import shutil
import subprocess

from roundtrip_lab import layers, runs
from roundtrip_lab.errors import LabError

# Explaining many slow calls takes seconds. A recording that takes longer counts as damaged.
LONGEST_S = 300


def find(program: str | None) -> str | None:
    """The roundtrip binary: the given one, or else the one on the path, or else None."""
    found = shutil.which(program or "roundtrip")
    if program and not found:
        raise LabError(f"{program} is not a program; pass the path of the roundtrip binary for this machine")
    return found


def kept(document: dict) -> int:
    """The number of slow calls and writes that a run kept."""
    results = document["results"]
    own = ((results.get("latency") or {}).get("explained") or {}).get("misses", [])
    calls = (results.get("observed_calls") or {}).get("slow_calls", [])
    return len(own) + len(calls) + len((results.get("observed_writes") or {}).get("slow_writes", []))


def can_explain(document: dict) -> bool:
    """Whether Roundtrip can explain something of a run: what it kept, or the slowest recorded writes of its own."""
    return bool(kept(document) or (document["results"].get("storage") or {}).get("recorder"))


def ask(program: str, run: runs.Run) -> dict:
    """The explanations of a run. Raises Damaged if Roundtrip cannot explain it."""
    document = runs.parse(printed(program, "explain", run, "json"))
    runs.check(document, "explanations.schema.json")
    return document


def divide(program: str, run: runs.Run) -> layers.Divided:
    """The layers of a run's writes. Raises Damaged if Roundtrip cannot read the recording."""
    try:
        return layers.of_figures(printed(program, "show", run, "csv").decode())
    except (ValueError, KeyError, TypeError) as error:
        raise runs.Damaged(f"roundtrip show printed unexpected figures: {error!s:.200}") from error


def printed(program: str, command: str, run: runs.Run, form: str) -> bytes:
    """The output of `roundtrip COMMAND RUN --format FORM`. Raises Damaged if there is none."""
    words = [program, command, str(run.directory.absolute()), "--format", form]
    try:
        done = subprocess.run(words, capture_output=True, timeout=LONGEST_S, stdin=subprocess.DEVNULL, check=False)
    except subprocess.TimeoutExpired as error:
        raise runs.Damaged(f"roundtrip {command} took longer than {LONGEST_S} s") from error
    except OSError as error:
        raise LabError(f"cannot run {program}: {error.strerror}") from error
    # Status 1: a part of the recording is damaged, but the output has the rest.
    if done.returncode not in (0, 1) or not done.stdout:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise runs.Damaged(f"roundtrip {command}: {lines[-1][:200] if lines else f'status {done.returncode}'}")
    return done.stdout
