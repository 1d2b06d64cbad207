"""Where recorded runs are."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
RUNS = ROOT / "fixtures" / "runs"
BINDER = RUNS / "x86_64-6.1-binder"
# A run of 2 s over the emulated driver: what simulated calls are drawn from.
SEED = Path(__file__).parent / "data" / "latency"
# Observed writes, stored divided among the layers.
WRITES = RUNS / "x86_64-6.18-observed-writes"
# Some writes alone and beside a CPU hog, with the kernel's events.
INTERFERENCE = Path(__file__).parent / "data" / "interference"
