"""What docs/lab.md says about cost and about alarms, measured on simulated fleets.

    python lab/measure.py alarms RUN FOLDER            planted regressions found, and nights with false alarms
    python lab/measure.py cost DATASET [ENGINE]        how long each query takes, and the most memory it needs
    python lab/measure.py chart DATASET… -o FILE.svg   how the cost grows from set to set

RUN is what fleets are drawn from. FOLDER is where each fleet lies while it is read.
"""

import argparse
import datetime
import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

from scipy import special

from roundtrip_lab import engines, queries, simulation
from roundtrip_lab.dataset import DataSet
from roundtrip_lab.queries import Filters

DEVICES, NIGHTS, CALLS, FLEETS = 1000, 90, 200, 12
# One healthy fleet for so many with regressions.
HEALTHY = 4
# What the three queries read.
ASKED_OF = ("series", "device", "build", "day", "model", "time", "calls", "missed", "p50_ns", "p99_ns")
QUERIES = {
    "percentiles": lambda engine: queries.percentiles(engine),
    "percentiles by label": lambda engine: queries.percentiles(engine, "label:site"),
    "percentiles by device": lambda engine: queries.percentiles(engine, "device"),
    "misses": lambda engine: queries.misses(engine),
    "worst-devices": lambda engine: queries.worst_devices(engine),
    "outliers": lambda engine: queries.outliers(engine),
    "causes": lambda engine: queries.causes(engine),
    "causes, two builds": lambda engine: queries.causes(engine, base="build-001", new="build-002"),
    "layers": lambda engine: queries.layers(engine),
    "layers, two builds": lambda engine: queries.layers(engine, base="build-001", new="build-002"),
    "regressions": lambda engine: queries.regressions(engine),
    "changes": lambda engine: queries.changes(engine),
    "distribution": lambda engine: queries.distribution(engine),
}


def fleet(run: Path, folder: Path, seed: int, healthy: bool) -> tuple[engines.Engine, dict]:
    """A fleet, held in memory because it is asked for every night, and what is planted in it."""
    path = folder / f"{'healthy' if healthy else 'planted'}-{seed}"
    simulation.simulate([run], str(path), simulation.Plan(DEVICES, NIGHTS, CALLS, seed, healthy))
    data = DataSet.open(path)
    rows = engines.connect(None, data)
    engine = engines.Fetched(rows.fetch(rows.series.select(ASKED_OF)), data)
    truth = json.loads((path / "planted.json").read_text())
    shutil.rmtree(path)
    return engine, truth


def alarms(run: Path, folder: Path, fleets: int) -> None:
    """Counts what is found, and what is found where nothing is."""
    planted = found = nights = false = healthy_nights = healthy_false = 0
    for seed in range(fleets):
        engine, truth = fleet(run, folder, 100 + seed, False)
        real = {(note["series"], note["build"]) for note in truth["regressions"]}
        planted, found = planted + len(real), found + len(real & worse(engine, Filters()))
        for night in range(1, NIGHTS):
            named = worse(engine, Filters(until=day(night)))
            nights, false = nights + 1, false + bool(named - real)
        print(f"{seed + 1} fleets: {found} of {planted} found, {at_least(found, planted):.1%} at least; "
              f"a false alarm on {false} of {nights} nights, {1 - at_least(nights - false, nights):.2%} at most", flush=True)  # fmt: skip
    for seed in range(fleets // HEALTHY):
        engine, _ = fleet(run, folder, 200 + seed, True)
        for night in range(1, NIGHTS):
            filters = Filters(until=day(night))
            any_of = bool(set(queries.regressions(engine, filters)["verdict"]) & {"worse", "better"})
            any_of |= not queries.changes(engine, filters).empty or not queries.outliers(engine, filters).empty
            healthy_nights, healthy_false = healthy_nights + 1, healthy_false + any_of
        print(f"{seed + 1} healthy fleets: an alarm of any of three queries on {healthy_false} of {healthy_nights} nights",
              flush=True)  # fmt: skip


def worse(engine: engines.Engine, filters: Filters) -> set[tuple[str, str]]:
    """The series and builds that `regressions` names."""
    answer = queries.regressions(engine, filters)
    return set(answer[answer["verdict"] == "worse"][["series", "new"]].itertuples(index=False, name=None))


def at_least(hits: int, tries: int) -> float:
    """The lower end of a share's one-sided interval of 95% (Clopper and Pearson)."""
    return float(special.betaincinv(hits, tries - hits + 1, 0.05)) if hits else 0.0


def day(night: int) -> datetime.date:
    """The day of a night."""
    return simulation.FIRST_NIGHT + datetime.timedelta(days=night)


def cost(path: str, url: str | None) -> dict[str, float]:
    """Seconds of each query, the less of two, each in a connection of its own as a command has it."""
    seconds = {}
    for name, ask in QUERIES.items():
        taken = []
        for _ in range(2 if url is None else 1):
            engine = engines.connect(url, DataSet.open(path))
            start = time.perf_counter()
            ask(engine)
            taken.append(time.perf_counter() - start)
        seconds[name] = min(taken)
    return seconds


def chart(paths: list[str], out: Path) -> None:
    """Draws seconds against runs."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot

    sizes, seconds = [], []
    for path in paths:
        engine = engines.connect(None, DataSet.open(path))
        sizes.append(int(engine.run(engine.series.agg(rows=engine.series.count()))["rows"][0]) / 2)
        seconds.append(json.loads(subprocess.check_output([sys.executable, __file__, "cost", path, "--json"])))
    figure, axes = pyplot.subplots(figsize=(7, 4.2))
    for name in QUERIES:
        axes.plot([0, *[size / 1000 for size in sizes]], [None, *[of["seconds"][name] for of in seconds]], "o-", label=name)
    axes.set(xlabel="thousand runs", ylabel="seconds", xlim=(0, None), ylim=(0, None))
    axes.legend(fontsize=7, frameon=False)
    figure.savefig(out, bbox_inches="tight")
    for size, of in zip(sizes, seconds, strict=True):
        print(int(size), of)


def main() -> None:
    """Reads the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["alarms", "cost", "chart"])
    parser.add_argument("given", nargs="+")
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--fleets", type=int, default=FLEETS, help="how many fleets have regressions [default: %(default)s]")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.what == "alarms":
        alarms(*map(Path, arguments.given), arguments.fleets)
    elif arguments.what == "chart":
        chart(arguments.given, arguments.out)
    else:
        seconds = cost(*arguments.given, *[None] * (2 - len(arguments.given)))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
        if arguments.json:
            print(json.dumps({"seconds": seconds, "memory_gib": memory}))
        else:
            for name, taken in seconds.items():
                print(f"{taken:8.2f} s  {name}")
            print(f"{memory:8.2f} GiB at most")


main()
