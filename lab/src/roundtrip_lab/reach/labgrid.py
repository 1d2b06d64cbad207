"""Places of labgrid: hosts behind its exporters, each for one user at a time.

Acquires a place, and connects to its NetworkService over ssh, through the exporter if labgrid
requires that. Always releases the place.
"""

import contextlib
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import click

from roundtrip_lab.reach import ssh
from roundtrip_lab.reach.kind import Failed, Kind, Shell
from roundtrip_lab.scratch import scratch


class Labgrid(Kind):
    name = "labgrid"
    syntax = "labgrid:PLACE"
    options = (
        click.option("--coordinator", metavar="HOST[:PORT]", envvar="LG_COORDINATOR", default="127.0.0.1:20408",
                     show_default=True, show_envvar=True, help="The coordinator of labgrid's places."),
    )  # fmt: skip

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        self.session = None

    def addresses(self, address: str) -> list[str]:
        if not super().addresses(address):
            return []
        if self.session is None:
            # labgrid is optional, and imported only if a target needs it.
            from roundtrip_lab.reach.coordinator import Session

            self.session = Session(self.given["coordinator"])
        try:
            return self.session.ask(self.session.matching(address))
        except Failed:
            # Reported as a failed target, so that the other targets are measured.
            return [address]

    @contextlib.contextmanager
    def shell(self, address: str, script: str) -> Iterator[Shell]:
        with contextlib.ExitStack() as until_then:
            service = self.session.service(until_then.enter_context(self.session.held(address)))
            # As in labgrid: boards get new keys with each image, so checking them is useless.
            options = ["UserKnownHostsFile=/dev/null", "StrictHostKeyChecking=no", "LogLevel=ERROR"]
            variables = {}
            if proxy := self.session.proxy(service):
                options.append("ProxyCommand=" + shlex.join(proxy).replace("%", "%%"))
            if service.password is not None:
                options += ["BatchMode=no", "NumberOfPasswordPrompts=1"]
                variables = until_then.enter_context(answer(service.password))
            words = ["-p", str(service.port), "-l", service.username]
            words += [word for option in options for word in ("-o", option)]
            yield Shell(ssh.command(service.address, script, words), variables)

    def close(self) -> None:
        if self.session:
            self.session.close()


@contextlib.contextmanager
def answer(password: str) -> Iterator[dict[str, str]]:
    """Environment variables that give ssh a password without exposing it in arguments or files."""
    with scratch() as folder:
        program = folder / "answer"
        program.touch(mode=0o700)
        program.write_text("#!/bin/sh\nprintf '%s\\n' \"$ROUNDTRIP_LAB_PASSWORD\"\n")
        yield {"SSH_ASKPASS": str(program), "SSH_ASKPASS_REQUIRE": "force", "ROUNDTRIP_LAB_PASSWORD": password}
