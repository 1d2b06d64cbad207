"""Which rows a question is about, and what they are grouped by."""

import datetime
from dataclasses import dataclass

import ibis
import ibis.expr.types as ir

from roundtrip_lab.errors import LabError

COLUMNS = ("build", "kernel", "device", "day", "machine", "model", "driver", "stack", "caller")
NONE = "(none)"


@dataclass(frozen=True)
class Filters:
    """What is asked about. The default is every call."""

    time: str = "call"
    series: str | None = None
    build: str | None = None
    kernel: str | None = None
    devices: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    since: datetime.date | None = None
    until: datetime.date | None = None

    def of(self, table: ir.Table) -> ir.Table:
        """The rows that are meant."""
        wanted = [table.time == self.time]
        if self.series:
            wanted.append(table.series.contains(self.series))
        if self.build:
            wanted.append(table.build == self.build)
        if self.kernel:
            wanted.append(table.kernel == self.kernel)
        if self.devices:
            wanted.append(table.device.isin(self.devices))
        wanted += [label(table, key) == value for key, value in self.labels]
        if self.since:
            wanted.append(table.day >= ibis.date(self.since.isoformat()))
        if self.until:
            wanted.append(table.day <= ibis.date(self.until.isoformat()))
        return table.filter(wanted)


def label(table: ir.Table, key: str) -> ir.StringValue:
    """The value of a label, or NONE. ClickHouse has an empty text for a label that is not there."""
    return table.labels.get(key, "").nullif("").fill_null(NONE)


def grouped(table: ir.Table, by: str) -> ir.Table:
    """The table with a column `group` of text: a column's value, or a label's with `label:KEY`."""
    if by.startswith("label:") and len(by) > len("label:"):
        return table.mutate(group=label(table, by.removeprefix("label:")))
    if by not in COLUMNS:
        raise LabError(f"cannot group by {by!r}: say one of {', '.join(COLUMNS)} or label:KEY")
    return table.mutate(group=table[by].cast("string").fill_null(NONE))
