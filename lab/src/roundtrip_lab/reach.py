"""Runs the device binary on a target and brings the run directory back.

One connection does it all: a shell on the target takes the binary on its standard input, runs it in
a folder of its own, and sends the run as a tar stream. It removes the folder whatever happens, and
ends the measurement when its input closes: so it does after Ctrl-C, a timeout or a lost connection.
"""

import contextlib
import dataclasses
import os
import re
import select
import shlex
import shutil
import subprocess
import tarfile
import tempfile
import threading
import time
from pathlib import Path
from typing import IO

from roundtrip_lab.errors import LabError
from roundtrip_lab.words import inert

GREETING = re.compile(rb"roundtrip-lab ([A-Za-z0-9_]{1,32})\n")
STATUS = re.compile(rb"status ([0-9]{1,3})\n")
ARCHITECTURES = {"x86_64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
# What a target may send as one run, and in how many files.
FILES = 100_000
# How long a target may take to stop the measurement and to clean up.
GRACE_S = 15

SCRIPT = r"""
umask 077
base=${TMPDIR:-/tmp}
if [ -d /data/local/tmp ]; then base=/data/local/tmp; fi
d=$(mktemp -d "$base/roundtrip-lab.XXXXXX") || exit 97
child=
stop() { if [ -n "$child" ]; then kill -TERM "$child"; wait "$child"; fi; exit 98; }
trap 'rm -rf "$d"' EXIT
trap stop HUP INT TERM
trap '' PIPE
echo "roundtrip-lab $(uname -m)"
read -r size || exit 98
head -c "$size" > "$d/roundtrip" || exit 97
[ "$(wc -c < "$d/roundtrip")" -eq "$size" ] || exit 98
chmod 700 "$d/roundtrip"
cd "$d" || exit 97
exec 3<&0
(trap - PIPE; exec timeout -k 10 LIMIT ./roundtrip ARGUMENTS --out run) > log 2>&1 < /dev/null 3<&- &
child=$!
(cat <&3; kill -TERM "$child"; sleep 10; kill -KILL "-$child" "$child") > /dev/null 2>&1 &
watch=$!
wait "$child"
status=$?
child=
kill "$watch" 2> /dev/null
echo "status $status"
if [ -d run ]; then tar -cf - log run; else tar -cf - log; fi
"""


class Failed(Exception):
    """Why a target brought no run. `again` says whether another try may help."""

    def __init__(self, reason: str, again: bool = False) -> None:
        super().__init__(reason)
        self.again = again


@dataclasses.dataclass(frozen=True)
class Target:
    """`local`, `ssh:[USER@]HOST[:PORT]` or `adb:SERIAL`."""

    text: str
    kind: str
    address: str

    @property
    def name(self) -> str:
        """The name of its folder: the target's own, with a sign for all that a path could read."""
        return re.sub(r"[^A-Za-z0-9._@-]", "_", self.address or "local").lstrip(".") or "_"

    def command(self, script: str) -> list[str]:
        """What starts a shell there."""
        if self.kind == "local":
            return ["sh", "-c", script]
        if self.kind == "adb":
            return ["adb", "-s", self.address, "shell", "-T", "sh -c " + shlex.quote(script)]
        host, colon, port = self.address.rpartition(":")
        where = ["-p", port, "--", host] if colon and port.isdigit() else ["--", self.address]
        options = ["BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3"]
        return [
            "ssh", "-T", *(word for option in options for word in ("-o", option)), *where,
            "sh -c " + shlex.quote(script),
        ]  # fmt: skip


def target(text: str) -> Target:
    """Reads a target's name."""
    kind, _, address = text.partition(":")
    if text == "local":
        return Target(text, "local", "")
    if kind in ("ssh", "adb") and address and not address.startswith("-"):
        return Target(text, kind, address)
    raise LabError(f"unknown target {text!r}: say local, ssh:USER@HOST, ssh:HOST:PORT or adb:SERIAL")


@dataclasses.dataclass
class Job:
    """What to do on each target."""

    arguments: tuple[str, ...]
    binaries: Path
    into: Path
    timeout_s: float
    max_bytes: int
    stopping: threading.Event = dataclasses.field(default_factory=threading.Event)

    def binary(self, machine: str) -> Path:
        """The static binary for what `uname -m` says."""
        architecture = ARCHITECTURES.get(machine)
        if architecture is None:
            raise Failed(f"there is no binary for {machine}")
        path = self.binaries / f"roundtrip-{architecture}"
        if not path.is_file():
            raise Failed(f"no {path}; build it with cargo xtask dist")
        return path


class Stream:
    """What a target sends, with an end to waiting and to its size."""

    def __init__(self, pipe: IO[bytes], job: Job, deadline: float) -> None:
        self.pipe, self.job, self.deadline = pipe, job, deadline
        self.left = job.max_bytes

    def read(self, size: int) -> bytes:
        """Up to so many bytes; none at the end."""
        while True:
            if self.job.stopping.is_set():
                raise Failed("stopped")
            if time.monotonic() > self.deadline:
                raise Failed(f"took longer than {self.job.timeout_s:g} s")
            if select.select([self.pipe], [], [], 0.2)[0]:
                break
        part = os.read(self.pipe.fileno(), min(size, 1 << 16))
        self.left -= len(part)
        if self.left < 0:
            raise Failed(f"sent more than {self.job.max_bytes} bytes")
        return part

    def line(self) -> bytes:
        """One short line, or what came of it."""
        line = b""
        while len(line) < 64 and not line.endswith(b"\n"):
            byte = self.read(1)
            if not byte:
                break
            line += byte
        return line


def fetch(place: Target, job: Job) -> Path:
    """Runs the job on a target. Returns the run directory."""
    arguments = [*job.arguments]
    if place.kind != "local" and not any("device=" in word for word in arguments):
        arguments += ["--label", f"device={place.address}"]
    script = SCRIPT.replace("LIMIT", str(int(job.timeout_s) + 1))
    script = script.replace("ARGUMENTS", shlex.join(arguments))
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(
                place.command(script), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said,
                bufsize=0, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise Failed(f"cannot start {error.filename}: {error.strerror}") from error
        try:
            return talk(place, job, process, said)
        finally:
            end(process)


def talk(place: Target, job: Job, process: subprocess.Popen, said: IO[bytes]) -> Path:
    """Sends the binary, waits, and keeps what comes back."""
    stream = Stream(process.stdout, job, time.monotonic() + job.timeout_s)
    greeting = GREETING.fullmatch(stream.line())
    if greeting is None:
        raise Failed(why(said) or "the target's shell gave no answer", again=True)
    binary = job.binary(greeting[1].decode())
    try:
        send(process, binary, stream)
    except OSError as error:
        raise Failed("the connection was lost", again=True) from error
    status = STATUS.fullmatch(stream.line())
    if status is None:
        raise Failed(why(said) or "the connection was lost", again=True)
    with tempfile.TemporaryDirectory(dir=job.into, prefix=".roundtrip-lab-") as folder:
        unpack(stream, Path(folder), job)
        return keep(place, Path(folder), job, int(status[1]))


def send(process: subprocess.Popen, binary: Path, stream: Stream) -> None:
    """Writes the binary as fast as the target takes it."""
    pipe = process.stdin
    os.set_blocking(pipe.fileno(), False)
    content = memoryview(b"%d\n" % binary.stat().st_size + binary.read_bytes())
    while content:
        if stream.job.stopping.is_set() or time.monotonic() > stream.deadline:
            raise Failed("stopped while the binary was sent")
        if select.select([], [pipe], [], 0.2)[1]:
            content = content[os.write(pipe.fileno(), content[: 1 << 16]) :]


def unpack(stream: Stream, folder: Path, job: Job) -> None:
    """Keeps files and folders inside of the folder; anything else ends it."""
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=512) as tar:
            for count, member in enumerate(tar):
                if not (member.isreg() or member.isdir()):
                    raise Failed(f"sent a special file: {inert(member.name)[:100]}")
                if count > FILES or member.size > job.max_bytes:
                    raise Failed("sent more than a run holds")
                member.mode = 0o755 if member.isdir() else 0o644
                tar.extract(member, folder, set_attrs=False, filter="data")
    except (tarfile.TarError, OSError, ValueError) as error:
        raise Failed(f"sent no whole run: {inert(str(error))[:200]}") from error


def keep(place: Target, folder: Path, job: Job, status: int) -> Path:
    """Moves the run to its name, if there is one and the name is free."""
    if not (folder / "run" / "run.json").is_file():
        log = folder / "log"
        text = log.read_bytes()[-2000:].decode(errors="replace") if log.is_file() else ""
        if status == 124:
            raise Failed(f"took longer than {job.timeout_s:g} s")
        last = [line for line in text.splitlines() if line.strip()]
        raise Failed(f"roundtrip ended with {status}: {inert(last[-1])[:200] if last else 'it said nothing'}")
    to = job.into / place.name
    try:
        # An empty folder of this name claims it; a rename puts the run in its place.
        to.mkdir()
    except FileExistsError as error:
        raise Failed(f"{to} exists already") from error
    (folder / "run").rename(to)
    if status != 0:
        raise Failed(f"roundtrip ended with {status}; the run is in {to}")
    return to


def why(said: IO[bytes]) -> str:
    """The last line that ssh or adb said."""
    said.seek(0)
    lines = [line for line in said.read(1 << 16).decode(errors="replace").splitlines() if line.strip()]
    return inert(lines[-1])[:200] if lines else ""


def end(process: subprocess.Popen) -> None:
    """Closes the target's input, which ends what runs there, and waits until it is gone."""
    with contextlib.suppress(OSError):
        process.stdin.close()
    limit = time.monotonic() + GRACE_S
    while process.poll() is None and time.monotonic() < limit:
        # What it still sends is dropped, so that it can end.
        if select.select([process.stdout], [], [], 0.2)[0] and not os.read(process.stdout.fileno(), 1 << 16):
            time.sleep(0.05)
    if process.poll() is None:
        process.kill()
        process.wait()
    process.stdout.close()


def attempt(place: Target, job: Job, retries: int) -> Path:
    """Tries again where the connection failed, a second later each time."""
    if (job.into / place.name).exists():
        raise Failed(f"{job.into / place.name} exists already")
    for number in range(retries + 1):
        try:
            return fetch(place, job)
        except Failed as failed:
            if not failed.again or number == retries or job.stopping.wait(number + 1):
                raise
    raise AssertionError("a loop that returns or raises")


def dist() -> Path:
    """Where the binaries are, unless told: beside this command, or in a clone's target folder."""
    found = shutil.which("roundtrip-x86_64")
    return Path(found).parent if found else Path("target/dist")
