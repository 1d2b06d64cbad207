"""Reads a run directory of unknown origin, and turns it into rows."""

import datetime
import hashlib
import json
import os
import re
import stat
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import jsonschema_rs

from roundtrip_lab import schema, series
from roundtrip_lab.known import Known

# The same limit as in Roundtrip.
LARGEST_RUN_BYTES = 256 << 20
# What a document may take in memory. Python takes up to thirty times the size of its text.
LARGEST_DOCUMENT_BYTES = 256 << 20
# An earlier date means that the clock is wrong: Roundtrip did not exist.
FIRST_DAY = datetime.date(2020, 1, 1)


class Damaged(Exception):
    """The reason why a run cannot be collected."""


@dataclass
class Run:
    """A run that conforms to the schema."""

    directory: Path
    run_id: str
    document: dict


def read(directory: Path) -> Run:
    """Reads and checks `run.json`."""
    document = parse(read_bytes(directory / "run.json"))
    check(document, "run.schema.json")
    if (document["schema"], document["version"]) != ("roundtrip.run", 1):
        raise Damaged(f"schema {document['schema']!r} version {document['version']}: not roundtrip.run 1")
    return Run(directory, identity(document), document)


def identity(document: dict) -> str:
    """A digest of the run. Equal for exact duplicates, even if the JSON is formatted differently."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256()
    for begin in range(0, len(text), 1 << 20):
        digest.update(text[begin : begin + (1 << 20)].encode())
    return digest.hexdigest()[:32]


def read_bytes(path: Path) -> bytes:
    """Reads a regular file of limited size. Neither blocks nor follows a symbolic link."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Damaged(f"{path.name}: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Damaged(f"{path.name} is not a regular file")
    try:
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(LARGEST_RUN_BYTES + 1)
    except OSError as error:
        raise Damaged(f"{path.name}: {error.strerror}") from error
    if len(content) > LARGEST_RUN_BYTES:
        raise Damaged(f"{path.name} is larger than {LARGEST_RUN_BYTES >> 20} MiB")
    return content


def parse(content: bytes) -> dict:
    """Parses JSON. Raises Damaged if it is not an object of standard JSON in UTF-8, or asks for too much memory."""
    if document_bytes(content) > LARGEST_DOCUMENT_BYTES:
        raise Damaged(f"its contents take more than {LARGEST_DOCUMENT_BYTES >> 20} MiB of memory: measure fewer pairs")

    def no_constant(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    try:
        text = content.decode()
        del content
        document = json.loads(text, parse_constant=no_constant)
        # JSON allows an unpaired surrogate, which is not valid text.
        if re.search(r"\\u[dD][89a-fA-F]", text):
            json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Damaged(f"not JSON: {reason[:200]}") from error
    if not isinstance(document, dict):
        raise Damaged("not a JSON object")
    return document


def document_bytes(content: bytes) -> int:
    """About how many bytes Python takes for a document, from the characters that stand for its parts."""
    lists, objects, others = content.count(b"["), content.count(b"{"), content.count(b",") + content.count(b":")
    return len(content) + 72 * lists + 184 * objects + 40 * others


_validators: dict[str, jsonschema_rs.Validator] = {}


def check(document: dict, name: str) -> None:
    """Validates a document against a published schema. Raises Damaged if it does not conform."""
    if name not in _validators:
        published = resources.files("roundtrip_lab.published").joinpath(name).read_text()
        _validators[name] = jsonschema_rs.validator_for(json.loads(published))
    error = next(_validators[name].iter_errors(document), None)
    if error is not None:
        where = "/".join(str(step) for step in error.instance_path) or "the document"
        raise Damaged(f"against {name}: {where}: {error.message[:200]}")


def rows(run: Run, known: Known, today: datetime.date) -> list[dict]:
    """The run as rows of the table `series`."""
    document, environment = run.document, run.document["environment"]
    labels = document.get("labels", {})
    shown, running = place(document, today)
    common = {
        "run_id": run.run_id,
        "source": text(run.directory.name),
        "date": environment["date"],
        "device": labels.get("device") or environment["host_name"],
        "roundtrip_version": environment["roundtrip_version"],
        "partial": "partial" in document,
        "warnings": len(document["warnings"]),
        "day": shown,
        "build": running,
        "kernel": environment["kernel"]["release"],
        "machine": environment["kernel"]["machine"],
        "model": environment["cpus"]["model"],
        "labels": sorted(labels.items()),
    }
    try:
        found = [common | row for row in series.of(document["results"], known)]
        for row in found:
            schema.check(row)
    except (ArithmeticError, ValueError, LookupError, TypeError) as error:
        raise Damaged(f"its results contradict each other: {error!s:.200}") from error
    return found


def text(name: str) -> str:
    """The name of a file as text. Bytes that are not UTF-8 are escaped."""
    return os.fsencode(name).decode(errors="backslashreplace")


def place(document: dict, today: datetime.date) -> tuple[datetime.date | None, str]:
    """The day and the build of a run."""
    environment = document["environment"]
    return day(environment["date"], today), build(document.get("labels", {}), environment)


def build(labels: dict, environment: dict) -> str:
    """The label `build`, or else Android's build, or else the kernel's release."""
    android = environment.get("facts", {}).get("android_build", {}).get("value")
    return labels.get("build") or (android if isinstance(android, str) else "") or environment["kernel"]["release"]


def day(date: str, today: datetime.date) -> datetime.date | None:
    """The day by the device's clock; None if it is before FIRST_DAY or after tomorrow."""
    try:
        shown = datetime.datetime.fromisoformat(date).astimezone(datetime.UTC).date()
    except (ValueError, OverflowError):
        return None
    return shown if FIRST_DAY <= shown <= today + datetime.timedelta(days=1) else None
