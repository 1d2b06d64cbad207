"""What tests of `roundtrip-lab run` share: the command, a short measurement, and waiting."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

MEASURE = ["ipc", "latency", "--driver", "emulated", "--iterations", "50"]
# One that is still going on when a test ends it.
ENDLESS = ["ipc", "latency", "--driver", "emulated", "--duration", "60s"]
COMMAND = [sys.executable, "-c", "from roundtrip_lab.cli import main; main()", "run"]


def measure(*arguments):
    """The command, to its end."""
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=90)


def start(*arguments):
    """The command, under way, as a terminal starts it: with a process group of its own."""
    return subprocess.Popen([*COMMAND, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            start_new_session=True)  # fmt: skip


def finish(process, how):
    """Ends it by Ctrl-C or kill -9, or waits for its timeout. What it said on standard error."""
    if how == "signal":
        os.killpg(process.pid, signal.SIGINT)
    if how == "killed":
        process.kill()
    _, said = process.communicate(timeout=40)
    assert process.returncode == {"signal": 130, "timeout": 1, "killed": -signal.SIGKILL}[how], said
    return said


def wait(done, seconds=20):
    """Until it is so."""
    end = time.monotonic() + seconds
    while True:
        try:
            if done():
                return
        except OSError:
            pass
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.1)


def listens(port):
    """Whether somebody answers there."""
    return socket.create_connection(("127.0.0.1", port), 1).close() is None


def free_port():
    """A loopback port that nobody uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def at_work(folder):
    """Processes that work in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd").startswith(str(folder)):
                found.append(process.name)
        except OSError:
            continue
    return found


def nothing_stays(scratch):
    """Waits until a target has no folder and no process of ours."""
    wait(lambda: not any(scratch.iterdir()))
    wait(lambda: not at_work(scratch))
