"""The conversation with a target: sends the device binary, and receives a run directory.

It uses a single connection: a shell on the target reads the binary from its standard input, runs it
in a temporary folder, and sends the run as a tar stream. The shell always removes the folder. It
stops the measurement when its input closes, that is, after Ctrl-C, a timeout or a lost connection.
Must not know the kinds of targets.
"""

import contextlib
import dataclasses
import os
import re
import select
import shlex
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from roundtrip_lab.reach.kind import Failed, Shell, Stopped, Target
from roundtrip_lab.scratch import scratch
from roundtrip_lab.words import inert

GREETING = re.compile(rb"roundtrip-lab ([A-Za-z0-9_]{1,32})\n")
STATUS = re.compile(rb"status ([0-9]{1,3})\n")
ARCHITECTURES = {"x86_64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
# The maximum number of files in a run.
FILES = 100_000
# How long a target may take to stop the measurement and clean up.
GRACE_S = 15
# The exit status of the script if the target has no space for the binary.
NO_ROOM = 97

SCRIPT = r"""
umask 077
base=${TMPDIR:-/tmp}
if [ -d /data/local/tmp ]; then base=/data/local/tmp; fi
d=$(mktemp -d "$base/roundtrip-lab.XXXXXX") || exit NO_ROOM
child=
stop() { if [ -n "$child" ]; then kill -TERM "$child"; wait "$child"; fi; exit 98; }
trap 'rm -rf "$d"' EXIT
trap stop HUP INT TERM
trap '' PIPE
echo "roundtrip-lab $(uname -m)"
read -r size || exit 98
head -c "$size" > "$d/roundtrip" || exit NO_ROOM
[ "$(wc -c < "$d/roundtrip")" -eq "$size" ] || exit 98
chmod 700 "$d/roundtrip"
cd "$d" || exit NO_ROOM
exec 3<&0
(trap - PIPE; exec timeout -k 10 LIMIT ./roundtrip ARGUMENTS --out run) > log 2>&1 < /dev/null 3<&- &
child=$!
(
  cat <&3
  kill -TERM "$child"
  for second in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$child" && sleep 1; done
  kill -KILL "-$child" "$child"
) > /dev/null 2>&1 &
watch=$!
wait "$child"
status=$?
child=
kill "$watch" 2> /dev/null
echo "status $status"
if [ -d run ]; then tar -cf - log run; else tar -cf - log; fi
"""


@dataclasses.dataclass
class Job:
    """The job to run on each target."""

    arguments: tuple[str, ...]
    binaries: Path
    into: Path
    timeout_s: float
    max_bytes: int
    stopping: threading.Event = dataclasses.field(default_factory=threading.Event)

    def binary(self, machine: str) -> Path:
        """The static binary for a machine, by its `uname -m`."""
        architecture = ARCHITECTURES.get(machine)
        if architecture is None:
            raise Failed(f"there is no binary for {machine}")
        path = self.binaries / f"roundtrip-{architecture}"
        if not path.is_file():
            raise Failed(f"no {path}; build it with cargo xtask dist")
        return path


def ready(pipe: IO[bytes], event: int) -> bool:
    """Waits briefly for a pipe. Unlike `select`, `poll` has no limit on descriptor numbers."""
    poll = select.poll()
    poll.register(pipe, event)
    return bool(poll.poll(200))


class Stream:
    """The output of a target, with a deadline and a maximum size."""

    def __init__(self, pipe: IO[bytes], job: Job, deadline: float) -> None:
        self.pipe, self.job, self.deadline = pipe, job, deadline
        self.left = job.max_bytes

    def read(self, size: int) -> bytes:
        """Reads up to this many bytes; returns no bytes at the end."""
        self.check()
        while not ready(self.pipe, select.POLLIN):
            self.check()
        part = os.read(self.pipe.fileno(), min(size, 1 << 16))
        self.left -= len(part)
        if self.left < 0:
            raise Failed(f"sent more than {self.job.max_bytes} bytes")
        return part

    def check(self) -> None:
        """Raises an error after an interrupt or the deadline."""
        if self.job.stopping.is_set():
            raise Stopped
        if time.monotonic() > self.deadline:
            raise Failed(f"took longer than {self.job.timeout_s:g} s")

    def line(self) -> bytes:
        """Reads one line of at most 64 bytes, or what there is of it at the end of the output."""
        line = b""
        while len(line) < 64 and not line.endswith(b"\n"):
            byte = self.read(1)
            if not byte:
                break
            line += byte
        return line


class Talk:
    """One attempt on one target. Reports each stage to `at`."""

    def __init__(self, target: Target, job: Job, at: Callable[[str], None]) -> None:
        self.target, self.job, self.at = target, job, at

    def script(self) -> str:
        """The script for the target's shell."""
        arguments = [*self.job.arguments]
        if self.target.address and not any("device=" in word for word in arguments):
            arguments += ["--label", f"device={self.target.address}"]
        script = SCRIPT.replace("NO_ROOM", str(NO_ROOM)).replace("LIMIT", str(int(self.job.timeout_s) + 1))
        return script.replace("ARGUMENTS", shlex.join(arguments))

    def fetch(self) -> Path:
        """Runs the job on the target. Returns the run directory."""
        self.at("connecting")
        shelled = self.target.kind.shell(self.target.address, self.script())
        with tempfile.TemporaryFile() as said, shelled as shell, started(shell, said) as process:
            return self.converse(process, said)

    def converse(self, process: subprocess.Popen, said: IO[bytes]) -> Path:
        """Sends the binary, waits for the run, and stores it."""
        stream = Stream(process.stdout, self.job, time.monotonic() + self.job.timeout_s)
        greeting = GREETING.fullmatch(stream.line())
        if greeting is None:
            raise self.lost(process, said)
        binary = self.job.binary(greeting[1].decode())
        self.at("sending the binary")
        try:
            send(process, binary, stream)
        except OSError as error:
            raise self.lost(process, said) from error
        self.at("measuring")
        status = STATUS.fullmatch(stream.line())
        if status is None:
            raise self.lost(process, said)
        self.at("receiving the run")
        with scratch(self.job.into) as folder:
            unpack(stream, folder, self.job)
            return keep(self.target, folder, self.job, int(status[1]))

    def lost(self, process: subprocess.Popen, said: IO[bytes]) -> Failed:
        """The reason why the connection ended early. A retry may help unless the script failed."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
        said.seek(0)
        lines = [line for line in said.read(1 << 16).decode(errors="replace").splitlines() if line.strip()]
        reason = inert(self.target.kind.reason(lines))[:200] if lines else "the connection was lost"
        return Failed(reason, again=process.returncode != NO_ROOM)


@contextlib.contextmanager
def started(shell: Shell, said: IO[bytes]) -> Iterator[subprocess.Popen]:
    """Starts the command, and stops it at the end."""
    try:
        process = subprocess.Popen(
            shell.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, bufsize=0,
            env=os.environ | shell.variables, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise Failed(f"cannot start {error.filename}: {error.strerror}") from error
    try:
        yield process
    finally:
        end(process)


def send(process: subprocess.Popen, binary: Path, stream: Stream) -> None:
    """Writes the binary at the speed at which the target reads it."""
    pipe = process.stdin
    os.set_blocking(pipe.fileno(), False)
    content = memoryview(b"%d\n" % binary.stat().st_size + binary.read_bytes())
    while content:
        stream.check()
        if ready(pipe, select.POLLOUT):
            content = content[os.write(pipe.fileno(), content[: 1 << 16]) :]


def unpack(stream: Stream, folder: Path, job: Job) -> None:
    """Extracts files and folders into the folder. Raises Failed for anything else."""
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=512) as tar:
            for count, member in enumerate(tar):
                if not (member.isreg() or member.isdir()):
                    raise Failed(f"sent a special file: {inert(member.name)[:100]}")
                if count > FILES or member.size > job.max_bytes:
                    raise Failed("sent more files or bytes than a run can have")
                member.mode = 0o755 if member.isdir() else 0o644
                tar.extract(member, folder, set_attrs=False, filter="data")
    except (tarfile.TarError, OSError, ValueError) as error:
        reason = f"sent an incomplete or invalid run: {inert(str(error))[:200]}"
        raise Failed(reason, again=isinstance(error, tarfile.ReadError)) from error


def keep(target: Target, folder: Path, job: Job, status: int) -> Path:
    """Renames the run to its final name, if there is a run and the name does not exist."""
    if not (folder / "run" / "run.json").is_file():
        log = folder / "log"
        text = log.read_bytes()[-2000:].decode(errors="replace") if log.is_file() else ""
        if status == 124:
            raise Failed(f"took longer than {job.timeout_s:g} s")
        last = [line for line in text.splitlines() if line.strip()]
        raise Failed(f"roundtrip ended with {status}: {inert(last[-1])[:200] if last else 'it printed no error'}")
    to = job.into / target.name
    try:
        # Creating an empty folder reserves the name. The rename replaces it with the run.
        to.mkdir()
    except FileExistsError as error:
        raise Failed(f"{to} already exists") from error
    (folder / "run").rename(to)
    if status != 0:
        raise Failed(f"roundtrip ended with {status}; the run is in {to}")
    return to


def end(process: subprocess.Popen) -> None:
    """Closes the target's input, which stops the measurement, and waits until the script has exited."""
    with contextlib.suppress(OSError):
        process.stdin.close()
    limit = time.monotonic() + GRACE_S
    while process.poll() is None and time.monotonic() < limit:
        # Reads and discards the remaining output, so that the script does not block.
        if ready(process.stdout, select.POLLIN) and not os.read(process.stdout.fileno(), 1 << 16):
            time.sleep(0.05)
    if process.poll() is None:
        process.kill()
        process.wait()
    process.stdout.close()
