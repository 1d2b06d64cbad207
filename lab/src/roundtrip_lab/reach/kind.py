"""The interface of a kind of target: the syntax of its targets, and the command that starts a shell on one.

Must not know the binary, runs or retries.
"""

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar


class Failed(Exception):
    """The reason why a target delivered no run. `again`: a retry may help."""

    def __init__(self, reason: str, again: bool = False) -> None:
        super().__init__(reason)
        self.again = again


class Stopped(Failed):
    """The user interrupted the command."""

    def __init__(self) -> None:
        super().__init__("stopped")


@dataclasses.dataclass(frozen=True)
class Shell:
    """A local command that runs a script on the target, and its environment variables."""

    command: Sequence[str]
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)


class Kind:
    """A way to reach targets. One object serves all targets of this kind, from several threads."""

    name: ClassVar[str]
    # The syntax of its targets, for help and errors.
    syntax: ClassVar[str]
    # Its options of `roundtrip-lab run`, as decorators of click.
    options: ClassVar[tuple[Callable, ...]] = ()

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.given = options

    def addresses(self, address: str) -> list[str]:
        """The targets that an address selects; none if the address is invalid."""
        return [address] if address and not address.startswith("-") else []

    @contextlib.contextmanager
    def shell(self, address: str, script: str) -> Iterator[Shell]:
        """Reserves the target, and yields a command that starts a shell on it. Raises `Failed`."""
        raise NotImplementedError
        yield

    def reason(self, lines: list[str]) -> str:
        """Selects from the command's output the line that says why the connection failed."""
        return lines[-1]

    def close(self) -> None:
        """Releases what is shared between targets."""


@dataclasses.dataclass(frozen=True)
class Target:
    """One target: the text that the user typed, and the address for its kind."""

    text: str
    kind: Kind
    address: str

    @property
    def name(self) -> str:
        """The name of its folder: the address, with `_` for characters that have a meaning in paths."""
        return re.sub(r"[^A-Za-z0-9._@-]", "_", self.address or "local").lstrip(".") or "_"
