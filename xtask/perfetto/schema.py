"""Compares field numbers with Perfetto's published schema.

    python3 schema.py < TABLE

TABLE is a JSON array of [message, field, number, kind] with kinds Int, Uint, Fixed64, Text and Nested. Prints one line
for each difference, and then exits with status 1. Needs the packages `perfetto` and `protobuf` in its path.
"""

import json
import sys

from google.protobuf.descriptor import FieldDescriptor as F
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

KINDS = {
    "Int": {F.TYPE_INT32, F.TYPE_INT64, F.TYPE_ENUM},
    "Uint": {F.TYPE_UINT32, F.TYPE_UINT64, F.TYPE_BOOL},
    "Fixed64": {F.TYPE_FIXED64},
    "Text": {F.TYPE_STRING, F.TYPE_BYTES},
    "Nested": {F.TYPE_MESSAGE},
}


def message(name):
    """The published message, which may be nested in another one; None if it does not exist."""
    found = None
    for part in name.split("."):
        types = found.nested_types_by_name if found else schema.DESCRIPTOR.message_types_by_name
        found = types.get(part)
        if found is None:
            return None
    return found


def problem(name, field, number, kind):
    """A description of the error in an entry; None if it is correct."""
    published = message(name)
    if published is None:
        return f"{name}: no such message"
    field = field.removeprefix("r#")
    found = published.fields_by_name.get(field)
    if found is None:
        return f"{name}.{field}: no such field"
    if found.number != number:
        return f"{name}.{field}: is number {found.number}, not {number}"
    if found.type not in KINDS[kind]:
        return f"{name}.{field}: is of type {found.type}, which is not {kind}"
    return None


table = json.load(sys.stdin)
problems = [text for text in (problem(*entry) for entry in table) if text]
print("\n".join(problems) or f"{len(table)} fields are as published")
sys.exit(bool(problems) or not table)
