"""The paths of recorded runs."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
RUNS = ROOT / "fixtures" / "runs"
BINDER = RUNS / "x86_64-6.1-binder"
# A run of 2 s over the emulated driver, from which simulated calls are drawn.
SEED = Path(__file__).parent / "data" / "latency"
# Observed writes, whose layers are stored in run.json.
WRITES = RUNS / "x86_64-6.18-observed-writes"
# Some writes with and without a CPU hog, with the kernel's events.
INTERFERENCE = Path(__file__).parent / "data" / "interference"
