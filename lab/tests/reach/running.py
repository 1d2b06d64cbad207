"""Shared by tests of `roundtrip-lab run`: the command, a short measurement, and waiting."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

MEASURE = ["ipc", "latency", "--driver", "emulated", "--iterations", "50"]
# A measurement that runs until a test stops it.
ENDLESS = ["ipc", "latency", "--driver", "emulated", "--duration", "60s"]
COMMAND = [sys.executable, "-c", "from roundtrip_lab.cli import main; main()", "run"]


def measure(*arguments):
    """Runs the command, and returns its result."""
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=90)


def start(*arguments):
    """Starts the command in a separate process group, as a terminal does."""
    return subprocess.Popen([*COMMAND, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            start_new_session=True)  # fmt: skip


def finish(process, how):
    """Stops it with Ctrl-C or kill -9, or waits for its timeout. Returns its standard error."""
    if how == "signal":
        os.killpg(process.pid, signal.SIGINT)
    if how == "killed":
        process.kill()
    _, said = process.communicate(timeout=40)
    assert process.returncode == {"signal": 130, "timeout": 1, "killed": -signal.SIGKILL}[how], said
    return said


def wait(done, seconds=60):
    """Waits until a condition is true."""
    end = time.monotonic() + seconds
    while True:
        try:
            if done():
                return
        except OSError:
            pass
        assert time.monotonic() < end, "the condition is still false"
        time.sleep(0.1)


def listens(port):
    """Whether a process listens on this port."""
    return socket.create_connection(("127.0.0.1", port), 1).close() is None


def free_port():
    """An unused loopback port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def at_work(folder):
    """The processes whose working directory is in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd").startswith(str(folder)):
                found.append(process.name)
        except OSError:
            continue
    return found


def nothing_stays(scratch):
    """Waits until no folder and no process of the run is left on a target."""
    wait(lambda: not any(scratch.iterdir()))
    wait(lambda: not at_work(scratch))
