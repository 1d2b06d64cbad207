"""Filters and grouping of queries."""

import datetime
from dataclasses import dataclass

import ibis
import ibis.expr.types as ir

from roundtrip_lab.engines import Engine
from roundtrip_lab.errors import LabError
from roundtrip_lab.words import inert

COLUMNS = ("build", "kernel", "device", "day", "machine", "model", "driver", "stack", "caller")
NONE = "(none)"
# The most names that an error lists.
LISTED = 8


@dataclass(frozen=True)
class Filters:
    """The filters of a query. By default it covers all calls."""

    time: str = "call"
    series: str | None = None
    build: str | None = None
    kernel: str | None = None
    devices: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    since: datetime.date | None = None
    until: datetime.date | None = None

    def of(self, table: ir.Table) -> ir.Table:
        """The rows that match."""
        wanted = [table.time == self.time]
        if self.series:
            wanted.append(table.series.contains(self.series))
        if self.build:
            wanted.append(table.build == self.build)
        if self.kernel:
            wanted.append(table.kernel == self.kernel)
        if self.devices:
            # For a plain IN, DuckDB also reads the other columns of rows that do not match.
            wanted.append(ibis.cases((table.device.isin(self.devices), True), else_=False))
        wanted += [label(table, key) == value for key, value in self.labels]
        if self.since:
            wanted.append(table.day >= ibis.date(self.since.isoformat()))
        if self.until:
            wanted.append(table.day <= ibis.date(self.until.isoformat()))
        return table.filter(wanted)


def label(table: ir.Table, key: str) -> ir.StringValue:
    """The value of a label, or NONE. ClickHouse has an empty text for a label that is not there."""
    return table.labels.get(key, "").nullif("").fill_null(NONE)


def label_keys(engine: Engine, without: set[str]) -> list[str]:
    """The labels that runs have, except for those that name a device."""
    rows = engine.sums
    found = names(engine, rows.select(key=rows.labels.keys().unnest()).key)
    return [key for key in found if key not in without | {"device", "serial"}]


def grouped(table: ir.Table, by: str) -> ir.Table:
    """The table with a column `group` of text: a column's value, or a label's with `label:KEY`."""
    if by.startswith("label:") and len(by) > len("label:"):
        return table.mutate(group=label(table, by.removeprefix("label:")))
    if by not in COLUMNS:
        raise LabError(f"cannot group by {by!r}: say one of {', '.join(COLUMNS)} or label:KEY")
    return table.mutate(group=table[by].cast("string").fill_null(NONE))


def time(column: ir.IntegerColumn) -> ir.FloatingScalar:
    """The sum of times in nanoseconds. Those of a fleet may exceed 63 bits; up to 2^53, the sum is exact."""
    return column.cast("float64").sum()


def check(engine: Engine, filters: Filters) -> None:
    """Raises LabError if a filter matches nothing in the data set. The error lists existing values."""
    for name in ("build", "kernel"):
        if getattr(filters, name):
            one_of(name, getattr(filters, name), names(engine, engine.sums[name]))
    if filters.series:
        there = names(engine, engine.sums.series)
        if not any(filters.series in name for name in there):
            raise LabError(f"no series has {filters.series!r} in its name; there are {listed(there)}")
    if filters.devices:
        devices = engine.series.device
        found = names(engine, engine.series.filter(devices.isin(filters.devices)).device)
        for device in set(filters.devices) - set(found):
            one_of("device", device, names(engine, devices))
    for key, value in filters.labels:
        table = engine.series if key in ("device", "serial") else engine.sums
        there = names(engine, label(table, key))
        if there == [NONE]:
            raise LabError(f"no run has a label {key!r}")
        one_of(f"label {key}", value, there)


def named_builds(engine: Engine, base: str | None, new: str | None) -> None:
    """Raises LabError unless both builds or none are given, and each has runs."""
    if bool(base) != bool(new):
        raise LabError("name both builds: --base BUILD --new BUILD")
    if new and base == new:
        raise LabError(f"--base and --new are the same build, {new!r}: name two")
    there = names(engine, engine.sums.build) if new else []
    for build in filter(None, (base, new)):
        one_of("build", build, there)


def one_of(what: str, name: str, there: list[str]) -> None:
    """Raises LabError if the name does not exist."""
    if name not in there:
        raise LabError(f"the data set has no {what} {name!r}; it has {listed(there)}")


def names(engine: Engine, column: ir.StringColumn) -> list[str]:
    """The values of a column, sorted."""
    table = column.name("name").as_table().distinct()
    return sorted(engine.run(table.filter(table.name.notnull()))["name"])


def listed(there: list[str]) -> str:
    """The first names, and the number of others."""
    if not there:
        return "none: nothing was collected"
    more = f" and {len(there) - LISTED} more" if len(there) > LISTED else ""
    return ", ".join(map(inert, there[:LISTED])) + more
