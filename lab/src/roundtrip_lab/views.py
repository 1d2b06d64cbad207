"""Turns query results into data for the templates: texts, positions and lengths. Must not know engines or the server."""

from collections import defaultdict

import pandas as pd

from roundtrip_lab import plots, schema, tables
from roundtrip_lab.queries.regressions import EVERY
from roundtrip_lab.words import inert

# The number of rows of a table, and of builds that a chart draws in a style of their own.
SHOWN = 50
DISTINCT = 6


def headline(shown: list[dict], percentiles: pd.DataFrame, regressions: pd.DataFrame | None) -> dict:
    """The headline: in how many series the newest build is slower, and how much data this is based on.

    It reads the verdicts that the table shows. They are `None` while the builds are being compared.
    """
    newest = {(item["name"], line["name"]) for item in shown for line in item["lines"] if line["newest"]}
    verdicts = regressions if regressions is not None else pd.DataFrame(columns=["series", "new", "verdict", "lacks"])
    worse = verdicts[verdicts["verdict"] == "worse"]
    slower = {pair for pair in zip(worse["series"], worse["new"], strict=True)}
    of_newest = verdicts[[pair in newest for pair in zip(verdicts["series"], verdicts["new"], strict=True)]]
    before = len({build for series, build in slower - newest})
    if not shown:
        text = "Nothing has been measured yet"
    elif regressions is None:
        text = "The builds are still being compared"
    elif slower & newest:
        several = any(sum(line["newest"] for line in item["lines"]) > 1 for item in shown)
        which = "The newest build of a branch" if several else "The newest build"
        text = f"{which} is slower than the one before in {len({series for series, _ in slower & newest})} of {len(shown)} series"
    elif of_newest.empty:
        text = "No build can be compared: " + (regressions.attrs.get("lacks") or "the newest builds have none before them")
    elif (of_newest["lacks"] != "").all():
        text = f"The newest build cannot be judged: {of_newest['lacks'].iloc[0]}"
    else:
        text = "No newest build is proven to be slower than the one before"
    if before and regressions is not None:
        text += f"; {before} earlier build{' is' if before == 1 else 's are'}"
    return {
        "text": text,
        "series": f"{len(shown):,}",
        "builds": f"{percentiles['build'].nunique():,}",
        "runs": f"{int(percentiles.groupby('build')['runs'].max().sum()) if len(percentiles) else 0:,}",
        "calls": f"{int(percentiles['calls'].sum()):,}",
    }


def runs(found: pd.DataFrame, here: dict[str, bool]) -> list[dict]:
    """A device's runs, the newest first."""
    return [
        {"id": row.run_id, "source": inert(row.source or ""), "date": inert(row.date), "build": inert(row.build),
         "here": here[row.source]}
        for row in found.iloc[::-1].itertuples()
    ]  # fmt: skip


def table(answer: pd.DataFrame) -> dict:
    """The headers and rows of a result, and which columns contain numbers."""
    headers, rows = tables.readable(answer.head(SHOWN))
    numbers = [tables.numeric(answer[name]) for name in answer.columns]
    devices = list(answer["device"].head(SHOWN)) if "device" in answer.columns else [None] * len(rows)
    return {
        "headers": headers,
        "rows": list(zip(devices, rows, strict=True)),
        "numbers": numbers,
        "device": list(answer.columns).index("device") if "device" in answer.columns else -1,
        "left_out": max(0, len(answer) - SHOWN),
        "lacks": answer.attrs.get("lacks", ""),
    }


def series(
    percentiles: pd.DataFrame, distribution: pd.DataFrame, layers: pd.DataFrame, worse: dict, order: pd.DataFrame
) -> list[dict]:
    """For each series, its builds in order, with the curves, the figures, and the layers of writes.

    `worse` contains the figures that became worse, in words, for pairs of series and build. `order` is the answer of
    the query `builds`. The branch that was measured last comes last.
    """
    latest = order.groupby("branch")["day"].transform(lambda days: max((str(day) for day in days.dropna()), default=""))
    order = order.assign(latest=latest).sort_values(["latest", "branch"], kind="stable")
    place = {build: number for number, build in enumerate(order["build"])}
    branch = dict(zip(order["build"], order["branch"], strict=True)) if order["branch"].nunique() > 1 else {}
    percentiles = percentiles.dropna(subset=["max_ns"])
    curves, parts = dict(list(distribution.groupby("series"))), dict(list(layers.groupby("series")))
    found = []
    for name, rows in percentiles.groupby("series", sort=False):
        rows = rows.sort_values("build", key=lambda column: column.map(lambda build: place.get(build, -1)))
        builds, marked = list(rows["build"]), {build: worse.get((name, build)) for build in rows["build"]}
        top = max(1, int(rows["p99_ns"].fillna(rows["max_ns"]).max()))
        deadline = rows["deadline_ns"].dropna()
        # A later build of the same branch replaces an earlier one.
        newest = set({branch.get(build): build for build in builds}.values())
        kinds = drawn(builds, marked)
        found.append({
            "series": inert(name),
            "name": name,
            "top": plots.duration(top),
            "lines": [line(row, top, marked[row.build], branch.get(row.build), row.build in newest) for row in rows.itertuples()],
            "picture": picture(curves.get(name), builds, kinds, int(deadline.max()) if len(deadline) else None),
            "legend": legend(builds, kinds, marked),
            "layers": stacks(parts.get(name), builds),
            "summary": summary(rows, marked),
        })  # fmt: skip
    return found


def line(row: object, top: int, worse: str | None, branch: str | None, newest: bool) -> dict:
    """A row of the table of builds. Its bars are scaled from 0 to the largest p99."""
    figures = (row.p50_ns, row.p90_ns, row.p99_ns, row.max_ns)
    return {
        "build": inert(row.build) + (f" ({inert(branch)})" if branch else ""),
        "name": row.build,
        "newest": newest,
        "worse": worse,
        "calls": f"{row.calls:,}",
        "runs": f"{row.runs:,}",
        "figures": [plots.duration(value) for value in figures],
        "missed": "-" if pd.isna(row.missed_share) else f"{row.missed_share * 100:.3g} %",
        "bars": [0 if pd.isna(value) else round(100 * value / top, 2) for value in figures[:3]],
    }


def drawn(builds: list[str], worse: dict[str, str | None]) -> dict[str, str]:
    """How each build's curve is drawn: the last two builds and worse builds in distinct styles, the others grey."""
    kinds = dict.fromkeys(builds, "earlier")
    for build in [build for build in builds if worse[build]][-(DISTINCT - 2) :]:
        kinds[build] = "worse"
    for build, kind in zip(reversed(builds), ("newest", "before"), strict=False):
        kinds[build] = kind
    return kinds


def picture(of: pd.DataFrame | None, builds: list[str], kinds: dict[str, str], deadline_ns: int | None) -> object:
    """The distribution of each build's calls."""
    if of is None:
        return None
    counts = {build: rows for build, rows in of.groupby("build") if build in kinds}
    return plots.cumulated({build: counts[build] for build in builds if build in counts}, kinds, deadline_ns)


def legend(builds: list[str], kinds: dict[str, str], worse: dict[str, str | None]) -> list[tuple[str, str]]:
    """The legend of the curves, the newest build first."""
    entries = [(kinds[build], inert(build) + (" (worse)" if worse[build] else "")) for build in reversed(builds)
            if kinds[build] != "earlier"]  # fmt: skip
    earlier = [build for build in builds if kinds[build] == "earlier"]
    if earlier:
        entries.append(("earlier", "1 earlier build" if len(earlier) == 1 else f"{len(earlier)} earlier builds"))
    return entries


def stacks(of: pd.DataFrame | None, builds: list[str]) -> dict | None:
    """The mean write of each build as a bar of its layers."""
    if of is None:
        return None
    means: dict[str, dict[str, float]] = defaultdict(dict)
    for row in of.itertuples():
        means[row.build][row.layer] = row.mean_ns
    top = max(sum(parts.values()) for parts in means.values()) or 1
    bars = []
    for build in [build for build in builds if build in means]:
        parts, place = [], 0.0
        for layer in schema.LAYERS:
            mean = means[build].get(layer, 0)
            if mean:
                parts.append((layer, round(100 * place / top, 3), round(100 * mean / top, 3), plots.duration(mean)))
                place += mean
        largest = sorted(means[build].items(), key=lambda pair: -pair[1])[:3]
        bars.append((inert(build), parts, plots.duration(place),
                     ", ".join(f"{layer} {plots.duration(mean)}" for layer, mean in largest if mean)))  # fmt: skip
    seen = [layer for layer in schema.LAYERS if any(layer == part[0] for _, parts, *_ in bars for part in parts)]
    return {"bars": bars, "layers": seen, "top": plots.duration(top)}


def summary(rows: pd.DataFrame, worse: dict[str, str | None]) -> str:
    """One sentence about the newest build."""
    last = rows.iloc[-1]
    text = f"{inert(last['build'])}: p50 {plots.duration(last['p50_ns'])}, p99 {plots.duration(last['p99_ns'])}"
    if not pd.isna(last["missed_share"]):
        text += f", {last['missed_share'] * 100:.3g} % of {last['calls']:,} calls missed {plots.duration(last['deadline_ns'])}"
    return text + (f"; worse than the build before in {worse[last['build']]}" if worse[last["build"]] else "")


def worse_builds(regressions: pd.DataFrame) -> dict[tuple[str, str], str]:
    """The figures in which each build is worse than the one before."""
    figures: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in regressions[regressions["verdict"] == "worse"].itertuples():
        part = "" if row.where == EVERY else f" with {row.where}"
        figures[row.series, row.new].append(row.figure + part)
    return {key: inert(" and ".join(names)) for key, names in figures.items()}
