"""The order of builds and their branches: one definition for all queries and for the page.

A build is on the branch that most of its runs name in a label. On each branch, builds follow one another by the days
on which devices first ran them, or in an order that is given. Of the devices' days, the end of the first quarter
counts: wrong clocks of a few devices do not move a build, and a build that some devices get late keeps its place.
"""

import math
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import ibis
import pandas as pd

from roundtrip_lab.engines import Engine
from roundtrip_lab.errors import LabError
from roundtrip_lab.queries.filters import NONE, label
from roundtrip_lab.words import inert, natural

QUARTER = 0.25
# What git may be asked about: no option, and no expression that searches.
COMMIT = re.compile(r"[0-9A-Za-z][0-9A-Za-z._/+-]*")
GIT_S = 120
COLUMNS = ["branch", "place", "build", "before", "day", "devices", "runs"]


@dataclass(frozen=True)
class Order:
    """How builds follow one another: `days`, `label:KEY`, `git:REPOSITORY`, or a file with a build on each line.

    `branch` is the label that names a build's branch.
    """

    by: str = "days"
    branch: str = "branch"


def builds(engine: Engine, order: Order = Order(), days: bool = True) -> pd.DataFrame:
    """All builds by branch and place. `before` is the build that each is compared with.

    A build that a given order does not contain comes first and has no place. `day` is the end of the first quarter of
    its devices' first days. Without `days`, only the branches are valid.
    """
    found = by_label(engine, order.branch).rename(columns={"value": "branch"})
    if not days:
        return found
    found = found.merge(first_days(engine), "left", "build")
    found["devices"] = found["devices"].fillna(0).astype("int64")
    names = list(found["build"])
    if order.by == "days":
        rank = dict(zip(names, [NONE if pd.isna(day) else str(day) for day in found["day"]], strict=True))
        # Builds without a day are the first.
        rank = {name: (day != NONE, day) for name, day in rank.items()}
    elif order.by.startswith("label:"):
        values = by_label(engine, order.by.removeprefix("label:"))
        rank = {row.build: natural(row.value) for row in values.itertuples() if row.value != NONE}
    elif order.by.startswith("git:"):
        rank = of_git(names, order.by.removeprefix("git:"))
    else:
        rank = of_file(order.by)
    if not set(rank) & set(names) and names:
        raise LabError(f"--order {order.by} orders none of the builds; the data set has {', '.join(map(inert, names[:4]))}")
    keys = {name: (name in rank, rank.get(name, ()), natural(name)) for name in names}
    found = found.sort_values("build", key=lambda column: column.map(ranks(keys)))
    found = found.sort_values("branch", kind="stable", ignore_index=True)
    placed = found[found["build"].isin(rank)]
    found["place"] = placed.groupby("branch").cumcount()
    found["place"] = found["place"].astype("Int64")
    found["before"] = placed.groupby("branch")["build"].shift()
    return found[COLUMNS]


def ranks(keys: dict[str, tuple]) -> dict[str, int]:
    """The place of each name in the order of these keys."""
    return {name: place for place, name in enumerate(sorted(keys, key=keys.get))}


def by_label(engine: Engine, key: str) -> pd.DataFrame:
    """All builds with the number of their runs, and the value of a label in most of these.

    A run has a row in each of its series, so the series with most runs counts.
    """
    rows = engine.sums
    rows = rows.mutate(value=label(rows, key)) if "labels" in rows.columns else rows.mutate(value=ibis.literal(NONE))
    number = rows.runs.sum() if "runs" in rows.columns else rows.count()
    each = rows.group_by(["build", "value", "series"]).agg(runs=number)
    found = engine.run(each.group_by(["build", "value"]).agg(runs=each.runs.max()))
    total = found.groupby("build")["runs"].sum()
    found["named"] = found["value"] != NONE
    found = found.sort_values(["named", "runs", "value"], ascending=[False, False, True]).drop_duplicates("build")
    return found.assign(runs=found["build"].map(total)).drop(columns="named")


def first_days(engine: Engine) -> pd.DataFrame:
    """For each build its devices, and the end of the first quarter of the days on which they first ran it."""
    rows = engine.series
    rows = rows.filter(rows.day.notnull())
    first = rows.group_by(["build", "device"]).agg(day=rows.day.min())
    counted = engine.run(first.group_by(["build", "day"]).agg(devices=first.count())).sort_values(["build", "day"])
    found = []
    for build, of in counted.groupby("build"):
        devices = int(of["devices"].sum())
        reached = of["devices"].cumsum() > math.ceil(QUARTER * (devices - 1))
        found.append([build, of["day"][reached].iloc[0], devices])
    return pd.DataFrame(found, columns=["build", "day", "devices"])


def of_file(path: str) -> dict[str, int]:
    """The order of a file: a build on each line, the oldest first."""
    try:
        lines = Path(path).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise LabError(f"--order {path}: {reason}; say days, label:KEY, git:REPOSITORY or a file") from error
    return {line.strip(): place for place, line in enumerate(lines) if line.strip()}


def of_git(names: list[str], repository: str) -> dict[str, int]:
    """The order of commits: a commit comes after its parents. Names that are no commits are left out."""
    asked = [name for name in names if COMMIT.fullmatch(name)]
    said = git(repository, ["cat-file", "--batch-check=%(objectname)"], [f"{name}^{{commit}}" for name in asked])
    commits = {name: line for name, line in zip(asked, said, strict=True) if re.fullmatch("[0-9a-f]{40,64}", line)}
    if not commits:
        return {}
    listed = git(repository, ["rev-list", "--topo-order", "--reverse", "--stdin"], sorted(set(commits.values())))
    place = {commit: number for number, commit in enumerate(listed)}
    return {name: place[commit] for name, commit in commits.items()}


def git(repository: str, words: list[str], lines: list[str]) -> list[str]:
    """What git says, line by line. Raises LabError if it fails."""
    command = ["git", "-C", repository, *words]
    text = "".join(f"{line}\n" for line in lines)
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=GIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"--order git:{repository}: {error}") from error
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"git failed with status {done.returncode}"]
        raise LabError(f"--order git:{repository}: {said[-1]}")
    return done.stdout.splitlines()
