"""What every kind of target offers: its names, and the command that starts a shell on one.

A kind knows no binary, no run and no retries.
"""

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar


class Failed(Exception):
    """Why a target brought no run. `again` says whether another try may help."""

    def __init__(self, reason: str, again: bool = False) -> None:
        super().__init__(reason)
        self.again = again


class Stopped(Failed):
    """The user ended it."""

    def __init__(self) -> None:
        super().__init__("stopped")


@dataclasses.dataclass(frozen=True)
class Shell:
    """A command of this machine that runs a script on the target, and variables that it needs."""

    command: Sequence[str]
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)


class Kind:
    """One way to reach targets. An object of it serves all its targets, from several threads."""

    name: ClassVar[str]
    # How its targets are written, for help and errors.
    syntax: ClassVar[str]
    # What `roundtrip-lab run` offers for it: decorators of click.
    options: ClassVar[tuple[Callable, ...]] = ()

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.given = options

    def addresses(self, address: str) -> list[str]:
        """The targets that an address stands for; none if it is not one."""
        return [address] if address and not address.startswith("-") else []

    @contextlib.contextmanager
    def shell(self, address: str, script: str) -> Iterator[Shell]:
        """Holds the target, and yields what starts a shell there. Raises `Failed`."""
        raise NotImplementedError
        yield

    def reason(self, lines: list[str]) -> str:
        """The line that says why there is no connection, of those that its command printed."""
        return lines[-1]

    def close(self) -> None:
        """Ends what it keeps between targets."""


@dataclasses.dataclass(frozen=True)
class Target:
    """One target, as it is written and as its kind knows it."""

    text: str
    kind: Kind
    address: str

    @property
    def name(self) -> str:
        """The name of its folder: the target's own, with a sign for all that a path could read."""
        return re.sub(r"[^A-Za-z0-9._@-]", "_", self.address or "local").lstrip(".") or "_"
