"""Measures on other machines: sends them the device binary and brings runs back.

Each kind of target is a class in `KINDS` with its own file; `kind.py` describes the interface. The
conversation with a target (`conversation.py`), and parallel attempts, progress and the summary
(`progress.py`), are the same for all kinds.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from roundtrip_lab.errors import LabError
from roundtrip_lab.reach.adb import Adb
from roundtrip_lab.reach.kind import Target
from roundtrip_lab.reach.labgrid import Labgrid
from roundtrip_lab.reach.local import Local
from roundtrip_lab.reach.ssh import Ssh

KINDS = [Local, Ssh, Adb, Labgrid]


def syntax() -> str:
    """The syntax of targets, for help and errors."""
    written = [kind.syntax for kind in KINDS]
    return f"{', '.join(written[:-1])} or {written[-1]}"


def options(command: Callable) -> Callable:
    """Adds the options of all kinds to a command."""
    for kind in KINDS:
        for option in kind.options:
            command = option(command)
    return command


@contextlib.contextmanager
def reached(texts: Iterable[str], given: Mapping[str, Any]) -> Iterator[list[Target]]:
    """Yields the targets that these texts select, without duplicates, and closes the kinds afterwards."""
    kinds = {kind.name: kind(given) for kind in KINDS}
    with contextlib.ExitStack() as closing:
        for kind in kinds.values():
            closing.callback(kind.close)
        targets = {}
        for text in texts:
            name, colon, address = text.partition(":")
            found = kinds[name].addresses(address) if name in kinds else []
            if not found:
                raise LabError(f"unknown target {text!r}: use {syntax()}")
            for one in found:
                written = f"{name}{colon}{one}"
                targets[written] = Target(written, kinds[name], one)
        yield list(targets.values())
