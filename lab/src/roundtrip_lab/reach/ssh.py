"""Hosts that ssh reaches. Keys, jump hosts and aliases come from ssh's configuration."""

import contextlib
import shlex
from collections.abc import Iterable, Iterator

from roundtrip_lab.reach.kind import Kind, Shell


class Ssh(Kind):
    name = "ssh"
    syntax = "ssh:[USER@]HOST[:PORT]"

    @contextlib.contextmanager
    def shell(self, address: str, script: str) -> Iterator[Shell]:
        host, colon, port = address.rpartition(":")
        if colon and port.isdigit():
            yield Shell(command(host, script, ["-p", port]))
        else:
            yield Shell(command(address, script))


def command(host: str, script: str, options: Iterable[str] = ()) -> list[str]:
    """The command that runs a script on a host. Never prompts, and detects a dead host.

    ssh takes the first value of an option, so these options win.
    """
    ours = ["BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3"]
    return [
        "ssh", "-T", *options, *(word for option in ours for word in ("-o", option)), "--", host,
        "sh -c " + shlex.quote(script),
    ]  # fmt: skip
