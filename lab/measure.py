"""What docs/lab.md says about cost and about alarms, measured on simulated fleets.

    python lab/measure.py alarms RUN FOLDER            planted regressions found, and nights with false alarms
    python lab/measure.py scenarios [--fleets N]       a step of 5% found within 10 nights, and false alarms, in small
                                                       fleets with the troubles of real labs
    python lab/measure.py cost DATASET [ENGINE]        how long each query takes, and the most memory it needs
    python lab/measure.py chart DATASET… -o FILE.svg   how the cost grows from set to set

RUN is what fleets are drawn from. FOLDER keeps what the queries read of each fleet: another measurement with the
same RUN begins with it.
"""

import argparse
import datetime
import json
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import ibis
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import special

sys.path.insert(0, str(Path(__file__).parent / "tests"))
import scenarios

from roundtrip_lab import engines, queries, simulation
from roundtrip_lab.dataset import DataSet
from roundtrip_lab.queries import Filters

DEVICES, NIGHTS, CALLS, FLEETS = 1000, 90, 200, 12
# What the three queries read.
ASKED_OF = ("series", "device", "build", "day", "model", "time", "calls", "missed", "p50_ns", "p99_ns", "kernel", "machine",
            "labels")
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
    "builds": lambda engine: queries.builds(engine),
    "distribution": lambda engine: queries.distribution(engine),
}


def fleet(run: Path, folder: Path, seed: int, healthy: bool) -> tuple[engines.Engine, dict]:
    """A fleet, held in memory because it is asked for every night, and what is planted in it."""
    path = folder / f"{'healthy' if healthy else 'planted'}-{seed}"
    rows, truth = path.with_suffix(".parquet"), path.with_suffix(".json")
    if not rows.exists():
        simulation.simulate([run], str(path), simulation.Plan(DEVICES, NIGHTS, CALLS, seed, healthy))
        engine = engines.connect(None, DataSet.open(path))
        truth.write_text((path / "planted.json").read_text())
        pq.write_table(engine.fetch(engine.series.select(ASKED_OF)), rows)
        shutil.rmtree(path)
    return engines.Fetched(pq.read_table(rows, columns=list(ASKED_OF)), None), json.loads(truth.read_text())


def alarms(run: Path, folder: Path, fleets: int, kinds: list[str]) -> None:
    """Counts, for each query, what it finds of what is planted, and the nights on which it names what is not."""
    for kind in kinds:
        counts: Counter = Counter()
        for number in range(fleets):
            healthy = kind == "healthy"
            engine, truth = fleet(run, folder, (700 if healthy else 600) + number, healthy)
            counts["nights"] += NIGHTS - 1
            judge_fleet(engine, truth, counts)
            print(f"{number + 1} {kind} fleets of {DEVICES} devices, {counts['nights']} nights")
            for name in (*PLANTED, "any"):
                print(f"  {name:12}", told(name, counts), flush=True)


def judge_fleet(engine: engines.Engine, truth: dict, counts: Counter) -> None:
    """Adds what the queries say of one fleet, in the end and every night."""
    for name, planted in PLANTED.items():
        wanted, said = planted(truth), ASKED[name](engine, Filters())
        counts[name, "planted"] += len(wanted)
        counts[name, "found"] += sum(any(real(name, thing, item) for thing in said) for item in wanted)
    before: set = set()
    for night in range(1, NIGHTS):
        alarmed, news = set(), set()
        for name in PLANTED:
            said = ASKED[name](engine, Filters(until=day(night)))
            false = {(name, thing[:3]) for thing in said if not excused(name, thing, truth)}
            alarmed |= {name} if false else set()
            news |= {name} if false - before else set()
            before |= false
        for group, names in (("false", alarmed), ("new", news)):
            counts.update({(name, group): 1 for name in names | ({"any"} if names else set())})


def regressions_said(engine: engines.Engine, filters: Filters) -> set[tuple]:
    """Series, build and verdict of what is not the same."""
    answer = queries.regressions(engine, filters)
    answer = answer[answer["verdict"].isin(["worse", "better"])].drop_duplicates(["series", "new", "verdict"])
    return set(answer[["series", "new", "verdict"]].itertuples(index=False, name=None))


def changes_said(engine: engines.Engine, filters: Filters) -> set[tuple]:
    """Series, figure, direction and night of each change."""
    answer = queries.changes(engine, filters)
    nights = [(pd.Timestamp(when) - pd.Timestamp(simulation.FIRST_NIGHT)).days for when in answer["day"]]
    up = answer["ratio"] > 1
    return set(zip(answer["series"], answer["figure"], up, nights, strict=True))


def outliers_said(engine: engines.Engine, filters: Filters) -> set[tuple]:
    """The devices."""
    return {(device,) for device in queries.outliers(engine, filters)["device"]}


ASKED = {"regressions": regressions_said, "changes": changes_said, "outliers": outliers_said}
# What each query has to find. A longer tail is a regression, but too short for a level of its own.
PLANTED = {
    "regressions": lambda truth: [(note["series"], note["build"], "worse") for note in truth["regressions"]],
    "changes": lambda truth: [(note["series"], "p50", True, first(note)) for note in truth["regressions"]
                              if note["kind"] == "slower"],
    "outliers": lambda truth: [(device,) for device in truth["sick"]],
}  # fmt: skip


def first(note: dict) -> int:
    """The night on which the first devices have a build."""
    return int(note["build"][-3:]) * simulation.BUILD_NIGHTS


def real(name: str, thing: tuple, item: tuple) -> bool:
    """Whether what a query says is what was planted: a change within the nights that a build took to arrive."""
    if name != "changes":
        return thing == item
    return thing[:3] == item[:3] and item[3] <= thing[3] <= item[3] + simulation.ROLLOUT_NIGHTS


def excused(name: str, thing: tuple, truth: dict) -> bool:
    """Whether something planted is behind it. When a longer tail ends, the next build is better."""
    notes = [note for note in truth["regressions"] if note["series"] == thing[0]]
    ends = [first(note) + simulation.BUILD_NIGHTS for note in notes if note["kind"] == "longer tail"]
    if name == "outliers":
        return thing[0] in truth["sick"]
    if name == "regressions" and thing[2] == "worse":
        return thing[1] in {note["build"] for note in notes}
    if name == "regressions":
        return int(thing[1][-3:]) * simulation.BUILD_NIGHTS in ends
    # Between two of these nights nothing changes. A level is found a night too early or too late at times.
    starts = [first(note) for note in notes] + ends
    return any(start - 1 <= thing[3] <= start + simulation.ROLLOUT_NIGHTS + 1 for start in starts)


def told(name: str, counts: Counter) -> str:
    """A line of the result, with one-sided bounds of 95% (Clopper and Pearson). They take nights as independent."""
    words = []
    if counts[name, "planted"]:
        found, planted = counts[name, "found"], counts[name, "planted"]
        words.append(f"found {found} of {planted} (at least {at_least(found, planted):.1%})")
    nights = counts["nights"]
    for group, text in (("false", "false on"), ("new", "something new and false on")):
        count = counts[name, group]
        words.append(f"{text} {count} of {nights} nights (at most {1 - at_least(nights - count, nights):.2%})")
    return ", ".join(words)


def at_least(hits: int, tries: int) -> float:
    """The lower end of a share's one-sided interval of 95% (Clopper and Pearson)."""
    return float(special.betaincinv(hits, tries - hits + 1, 0.05)) if hits else 0.0


# The troubles of small fleets, one at a time and all together. Each seed decides whether weekends are slower or faster.
SCENARIOS = {
    "none": {},
    "weekends": {"weekend": 0.1},
    "wrong clocks": {"wrong_clocks": 2},
    "two branches": {"branches": 2},
    "two kinds of devices": {"kinds": 0.5},
    "all of them": {"weekend": 0.1, "wrong_clocks": 2, "branches": 2, "kinds": 0.5},
}
STEP, STEP_NIGHT, WITHIN, FIRST_SEED = 1.05, 28, 10, 90_000
# The healthy fleets are asked on these nights.
HEALTHY_NIGHTS = (8, 13, 18, 23, 28, 33, 38)


class Again(engines.Fetched):
    """Holds one fleet after the other. The queries' SQL is made once."""

    def __init__(self) -> None:
        super().__init__(pa.table({}), None)
        self.made: dict = {}

    def hold(self, rows: pa.Table) -> None:
        """Replaces the fleet."""
        self.connection.con.register("held", rows)

    def _table(self, name: str) -> ibis.Table:
        return self.connection.table("held")

    def fetch(self, expression: ibis.Table) -> pa.Table:
        if expression.op() not in self.made:
            self.made[expression.op()] = self.connection.compile(expression)
        rows = self.connection.con.sql(self.made[expression.op()]).to_arrow_table()
        return rows.cast(expression.schema().to_pyarrow())


def in_scenarios(fleets: int) -> None:
    """For each scenario, in how many fleets the step is found in time, and on how many nights something false is said."""
    engine = Again()
    for name, troubles in SCENARIOS.items():
        found, late, nights, false = 0, [], 0, Counter()
        for number in range(fleets):
            seed = FIRST_SEED + number
            given = troubles | {"weekend": troubles.get("weekend", 0.0) * (-1) ** number}
            when = found_after(engine, scenarios.Fleet(**given, step=STEP, at=STEP_NIGHT, nights=STEP_NIGHT + WITHIN), seed)
            found += when is not None
            late += [when] if when is not None else []
            if number % 4 == 0:
                rows, night = scenarios.rows(scenarios.Fleet(**given), seed + fleets)
                for until in HEALTHY_NIGHTS:
                    engine.hold(rows.filter(pa.array(night < until)))
                    nights += 1
                    alarms = [query for query, ask in ASKED.items() if ask(engine, Filters())]
                    false.update([*alarms, *(["any"] if alarms else [])])
        print(f"{name}: found in {found} of {fleets} fleets (at least {at_least(found, fleets):.1%}), half of them within "
              f"{sorted(late)[len(late) // 2] if late else '-'} nights; false on {false['any']} of {nights} nights "
              f"(at most {1 - at_least(nights - false['any'], nights):.2%}) {dict(false)}, "
              f"{time.process_time():.0f} s of CPU so far", flush=True)  # fmt: skip


def found_after(engine: Again, fleet: scenarios.Fleet, seed: int) -> int | None:
    """After how many nights the step is found; None if not within WITHIN."""
    rows, night = scenarios.rows(fleet, seed)
    build = scenarios.build(0, STEP_NIGHT // fleet.build_nights)
    for after in (5, 7, 8, 9, 10):
        engine.hold(rows.filter(pa.array(night < STEP_NIGHT + after)))
        found = queries.changes(engine)
        days = (pd.to_datetime(found["day"]) - pd.Timestamp(scenarios.MONDAY)).dt.days - STEP_NIGHT
        right = (found["branch"] != "stable") & (found["figure"] == "p50") & (found["ratio"] > 1) & days.between(-1, fleet.rollout + 1)
        worse = () if right.any() else regressions_said(engine, Filters())
        if right.any() or any(thing[1:] == (build, "worse") for thing in worse):
            return after
    return None


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
    """Measures data sets, and draws seconds against runs."""
    sizes, seconds = [], []
    for path in paths:
        engine = engines.connect(None, DataSet.open(path))
        sizes.append(int(engine.run(engine.series.agg(rows=engine.series.count()))["rows"][0]) // 2)
        seconds.append(json.loads(subprocess.check_output([sys.executable, __file__, "cost", path, "--json"])))
        print(sizes[-1], seconds[-1], flush=True)
    draw(sizes, [of["seconds"] for of in seconds], out)


def draw(sizes: list[int], seconds: list[dict[str, float]], out: Path) -> None:
    """Draws a line for each query."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2))
    axes.set_prop_cycle(color=pyplot.get_cmap("tab20").colors)
    last = seconds[-1]
    for name in sorted(last, key=lambda name: -last[name]):
        axes.plot([size / 1000 for size in sizes], [of[name] for of in seconds], "o-", label=name)
    axes.set(xlabel="thousand runs", ylabel="seconds", xlim=(0, None), ylim=(0, None))
    # In the order of the lines' ends.
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(out, bbox_inches="tight")


def main() -> None:
    """Reads the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["alarms", "scenarios", "cost", "chart"])
    parser.add_argument("given", nargs="*")
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--fleets", type=int, default=FLEETS, help="of each kind [default: %(default)s]")
    parser.add_argument("--only", choices=["planted", "healthy"], help="one kind of fleets")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.what == "alarms":
        kinds = [arguments.only] if arguments.only else ["planted", "healthy"]
        alarms(*map(Path, arguments.given), arguments.fleets, kinds)
    elif arguments.what == "scenarios":
        in_scenarios(arguments.fleets)
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


if __name__ == "__main__":
    main()
