"""Formats answers: as a table for people, or for programs."""

import csv
import io
import json

import pandas as pd
import tabulate

from roundtrip_lab.words import inert

FORMATS = ("table", "json", "csv", "markdown")


def text(answer: pd.DataFrame, form: str) -> str:
    """The answer in one of FORMATS. JSON and CSV have every digit, in nanoseconds and shares of 1."""
    if form == "json":
        records = [{name: plain(value) for name, value in row.items()} for row in answer.to_dict("records")]
        return json.dumps(records, ensure_ascii=False) + "\n"
    if form == "csv":
        return as_csv(answer)
    headers, rows = readable(answer)
    if form == "markdown":
        rows = [[cell.replace("\\", "\\\\").replace("|", "\\|") for cell in row] for row in rows]
        headers = [header.replace("|", "\\|") for header in headers]
    style = "github" if form == "markdown" else "simple"
    right = ["right" if numeric(answer[name]) else "left" for name in answer.columns]
    return tabulate.tabulate(rows, headers, style, disable_numparse=True, colalign=right if rows else None) + "\n"


def as_csv(answer: pd.DataFrame) -> str:
    """CSV with one header line. An empty field is an unknown figure."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(answer.columns)
    for row in answer.itertuples(index=False):
        values = [plain(value) for value in row]
        writer.writerow(["" if value is None else inert(value) if isinstance(value, str) else value for value in values])
    return out.getvalue()


def plain(value: object) -> object:
    """Converts a value to a JSON type."""
    if pd.isna(value):
        return None
    if hasattr(value, "isoformat"):
        return value.isoformat()[:10]
    return value.item() if hasattr(value, "item") else value


def readable(answer: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Converts to microseconds and percent, and adds the units to the headers."""
    shares = {"low", "high"} if "missed_share" in answer.columns else set()
    headers, columns = [], []
    for name in answer.columns:
        values = [plain(value) for value in answer[name]]
        if name.endswith("_ns"):
            headers.append(name.removesuffix("_ns") + " us")
            columns.append([cell(value, lambda v: f"{v / 1000:.1f}") for value in values])
        elif name.endswith("share") or name in shares:
            headers.append((name.replace("_share", "") if name != "missed_share" else "missed") + " %")
            columns.append([cell(value, lambda v: f"{v * 100:.4g}") for value in values])
        else:
            headers.append(inert(name.replace("_", " ")))
            columns.append([cell(value, lambda v: f"{v:.4g}" if isinstance(v, float) else inert(str(v)))
                            for value in values])  # fmt: skip
    return headers, [list(row) for row in zip(*columns, strict=True)]


def cell(value: object, form: callable) -> str:
    """Formats a cell; a dash if the figure is unknown."""
    return "-" if value is None else form(value)


def numeric(column: pd.Series) -> bool:
    """Whether a column contains numbers."""
    return pd.api.types.is_numeric_dtype(column)
