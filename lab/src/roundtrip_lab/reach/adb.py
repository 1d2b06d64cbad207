"""Android devices that adb reaches, including those of a remote adb server."""

import contextlib
import shlex
import subprocess
from collections.abc import Iterator

from roundtrip_lab.errors import LabError
from roundtrip_lab.reach.kind import Kind, Shell


class Adb(Kind):
    name = "adb"
    syntax = "adb:SERIAL"

    def addresses(self, address: str) -> list[str]:
        return devices() if address == "*" else super().addresses(address)

    @contextlib.contextmanager
    def shell(self, address: str, script: str) -> Iterator[Shell]:
        # Without a terminal, adb passes standard input and output unchanged.
        yield Shell(["adb", "-s", address, "shell", "-T", "sh -c " + shlex.quote(script)])

    def reason(self, lines: list[str]) -> str:
        # The first line contains the reason, followed by advice. Messages of a starting server come before it.
        said = [line for line in lines if not line.startswith("* daemon")]
        return said[0] if said else lines[-1]


def devices() -> list[str]:
    """All devices that adb lists. An offline device fails as a target instead of being skipped."""
    try:
        listed = subprocess.run(["adb", "devices"], capture_output=True, text=True, timeout=30, check=True)
    except OSError as error:
        raise LabError(f"cannot start adb: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise LabError("adb devices did not answer within 30 s") from error
    except subprocess.CalledProcessError as error:
        raise LabError(f"adb devices failed: {error.stderr}") from error
    serials = [line.split("\t")[0] for line in listed.stdout.splitlines() if "\t" in line]
    if not serials:
        raise LabError("adb lists no device")
    return serials
