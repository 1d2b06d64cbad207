"""Merges rows of the table `series` into rows of the table `sums`.

Percentiles cannot be merged, but histograms can. One night of a fleet has one row here for each build, kernel,
model, set of labels and series, so a query about months does not read the rows of single devices.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from roundtrip_lab import schema
from roundtrip_lab.histogram import HIGHEST_NS

# Labels that identify a device are dropped. With them, no rows could be merged.
OF_ONE_DEVICE = {"device", "serial"}
BITS = HIGHEST_NS.bit_length()
MOST = np.iinfo(np.int64).max
LARGEST_PART_NS = float(1 << 61)
KEYS = [name for name, _ in schema.KEY]


def of(rows: pa.Table) -> pa.Table:
    """Merges rows into one row per key."""
    rows = rows.set_column(rows.schema.get_field_index("labels"), "labels", shared(rows["labels"]))
    group, first = groups(rows, part_of(rows))
    size = len(first)
    columns: dict[str, pa.Array] = {name: rows[name].take(pa.array(first)) for name in KEYS}
    columns["runs"] = pa.array(np.bincount(group, minlength=size), pa.int64())
    for name in ("calls", "missed", "sum_ns", "clamped", "lost", "slow_calls", "explained", *(name for name, _ in schema.DIVIDED)):
        columns[name] = total(rows[name], group, size)
    columns["min_ns"] = extreme(rows["min_ns"], group, size, np.minimum, MOST)
    columns["max_ns"] = extreme(rows["max_ns"], group, size, np.maximum, -MOST)
    columns["buckets"] = buckets(rows["buckets"], group, size)
    columns["causes"] = causes(rows["causes"], group, size)
    columns["worst_ns"], columns["worst"] = worst(rows["worst_ns"], rows["worst"], group, size)
    return pa.table({field.name: columns[field.name] for field in schema.SUMS}, schema=schema.SUMS)


def shared(labels: pa.ChunkedArray) -> pa.Array:
    """The labels, without those that identify a device."""
    kept = [[pair for pair in of_row or [] if pair[0] not in OF_ONE_DEVICE] for of_row in labels.to_pylist()]
    return pa.array(kept, schema.LABELS)


def part_of(rows: pa.Table) -> np.ndarray:
    """A number for each row. The sums of rows with the same number fit into 63 bits."""
    largest = pc.max_element_wise(rows["sum_ns"], rows["divided_ns"]).cast(pa.float64(), safe=False)
    return (np.cumsum(np.asarray(largest)) // LARGEST_PART_NS).astype(np.int64)


def groups(rows: pa.Table, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each row's group, and each group's first row. Rows with different codes are in different groups."""
    for name in KEYS:
        column = rows[name]
        if name == "labels":
            column = pa.array([repr(pairs) for pairs in column.to_pylist()])
        encoded = pc.fill_null(pc.dictionary_encode(flat(column)).indices, -1).to_numpy(False)
        _, codes = np.unique(codes * (int(encoded.max(initial=0)) + 2) + encoded + 1, return_inverse=True)
    _, first, group = np.unique(codes, return_index=True, return_inverse=True)
    return group, first


def flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def total(column: pa.ChunkedArray, group: np.ndarray, size: int) -> pa.Array:
    """The sum of each group; null if none of its rows has a value."""
    if column.null_count == len(column):
        return pa.nulls(size, pa.int64())
    has = np.asarray(pc.is_valid(column))
    values = np.asarray(pc.fill_null(column, 0))
    sums, any_of = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=bool)
    np.add.at(sums, group, values)
    np.logical_or.at(any_of, group, has)
    return pa.array(sums, pa.int64(), mask=~any_of)


def extreme(column: pa.ChunkedArray, group: np.ndarray, size: int, better: np.ufunc, worst: int) -> pa.Array:
    """The minimum or maximum of each group; null if none of its rows has a value."""
    found = np.full(size, worst, dtype=np.int64)
    better.at(found, group, np.asarray(pc.fill_null(column, worst)))
    return pa.array(found, pa.int64(), mask=found == worst)


def worst(times: pa.ChunkedArray, words: pa.ChunkedArray, group: np.ndarray, size: int) -> tuple[pa.Array, pa.Array]:
    """The slowest explained call of each group, and its sentence; null without one. Of equal ones, the first."""
    values = np.asarray(pc.fill_null(times, -1))
    order = np.lexsort((-np.arange(len(values)), values))
    place = np.full(size, -1)
    place[group[order]] = order
    none = (place < 0) | (values[place] < 0)
    found = pa.array(place, mask=none)
    return flat(times).take(found), flat(words).take(found)


def buckets(column: pa.ChunkedArray, group: np.ndarray, size: int) -> pa.Array:
    """The merged histogram of each group, in ascending order."""
    lists = flat(column)
    parent = np.asarray(pc.list_parent_indices(lists))
    pairs = lists.flatten()
    key = group[parent] << BITS | np.asarray(pairs.field("le_ns"))
    keys, inverse = np.unique(key, return_inverse=True)
    counts = np.zeros(len(keys), dtype=np.int64)
    np.add.at(counts, inverse, np.asarray(pairs.field("count")))
    offsets = np.searchsorted(keys, np.arange(size + 1) << BITS)
    return list_of(offsets, schema.BUCKETS, {"le_ns": keys & HIGHEST_NS, "count": counts})


def list_of(offsets: np.ndarray, kind: pa.ListType, fields: dict[str, np.ndarray | pa.Array]) -> pa.Array:
    """Builds lists of structs from columns."""
    arrays = [pa.array(fields[field.name], field.type) for field in kind.value_type]
    structs = pa.StructArray.from_arrays(arrays, fields=list(kind.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs, type=kind)


def causes(column: pa.ChunkedArray, group: np.ndarray, size: int) -> pa.Array:
    """The causes of each group: how often each delayed a call, and for how long."""
    lists = flat(column)
    parent = pc.list_parent_indices(lists)
    rows = lists.flatten()
    named = {name: rows.field(name) for name in ("kind", "owner", "who")}
    # Many causes of many runs may exceed 63 bits. Below 2^53 this is exact.
    named["excess_ns"] = rows.field("excess_ns").cast(pa.float64(), safe=False)
    merged = (
        pa.table({"group": pa.array(group).take(parent), **named})
        .group_by(["group", "kind", "owner", "who"], use_threads=False)
        .aggregate([("excess_ns", "sum"), ([], "count_all")])
        .sort_by([("group", "ascending"), ("kind", "ascending"), ("who", "ascending"), ("owner", "ascending")])
    )
    offsets = np.searchsorted(np.asarray(merged["group"]), np.arange(size + 1))
    kind = schema.SUMS.field("causes").type
    fields = {name: flat(merged[name]) for name in ("kind", "owner", "who")}
    excess = np.minimum(np.asarray(merged["excess_ns_sum"]), LARGEST_PART_NS).astype(np.int64)
    fields |= {"causes": flat(merged["count_all"]), "excess_ns": excess}
    return list_of(offsets, kind, fields)
