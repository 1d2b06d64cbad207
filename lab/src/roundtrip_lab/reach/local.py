"""The local machine as a target."""

import contextlib
from collections.abc import Iterator

from roundtrip_lab.reach.kind import Kind, Shell


class Local(Kind):
    name = "local"
    syntax = "local"

    def addresses(self, address: str) -> list[str]:
        return [] if address else [""]

    @contextlib.contextmanager
    def shell(self, address: str, script: str) -> Iterator[Shell]:
        yield Shell(["sh", "-c", script])
