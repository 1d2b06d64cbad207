"""Real targets: the binary, the scratch folder of targets on this machine, and a private sshd.

Fixtures that are slow to start are shared by all tests of a file, so no test may change their state.
"""

import os
import platform
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from running import free_port, listens, wait


@pytest.fixture(scope="module")
def variables():
    """Sets environment variables for all tests of a file."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def binaries(tmp_path_factory, roundtrip):
    """A folder with the binary under the name that `cargo xtask dist` gives it."""
    folder = tmp_path_factory.mktemp("dist")
    shutil.copy(roundtrip, folder / f"roundtrip-{platform.machine()}")
    return folder


@pytest.fixture(scope="module")
def scratch(tmp_path_factory, variables):
    """The folder in which targets on this machine create their temporary folders."""
    folder = tmp_path_factory.mktemp("scratch")
    variables.setenv("TMPDIR", str(folder))
    return folder


class Sshd:
    """A running sshd: its port, and the folder with its keys."""

    def __init__(self, home, port):
        self.home, self.port = home, port
        self.target = f"ssh:root@127.0.0.1:{port}"

    def calls(self):
        """The commands of ssh that were started."""
        return (self.home / "calls").read_text()


@pytest.fixture(scope="module")
def sshd(tmp_path_factory, scratch, variables):
    """An sshd on a loopback port with its own keys, and an ssh client that is configured for it.

    The client's configuration contains more names for it: `twin-1`, `twin-2`, the name of this
    machine, and `stranger`, whose key the client does not know.
    """
    program = shutil.which("sshd") or "/usr/sbin/sshd"
    if not (os.path.exists(program) and shutil.which("ssh") and os.geteuid() == 0):
        pytest.skip("no sshd, no ssh, or not root")
    Path("/run/sshd").mkdir(exist_ok=True)
    home = tmp_path_factory.mktemp("ssh")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", home / name], check=True)
    port = free_port()
    (home / "server").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {home}/host\nAuthorizedKeysFile {home}/user.pub\n"
        f"StrictModes no\nPidFile none\nUsePAM no\nPermitRootLogin yes\nSetEnv TMPDIR={scratch}\n"
    )
    (home / "known").write_text(f"[127.0.0.1]:{port} {(home / 'host.pub').read_text()}")
    (home / "client").write_text(
        "Host stranger\n  HostKeyAlias stranger\n"
        f"Host twin-1 twin-2 stranger {socket.getfqdn()}\n  HostName 127.0.0.1\n  Port {port}\n  User root\n"
        f"Host *\n  IdentityFile {home}/user\n  UserKnownHostsFile {home}/known\n"
    )
    (home / "bin").mkdir()
    client = home / "bin" / "ssh"
    client.write_text(f'#!/bin/sh\necho "$*" >> {home}/calls\nexec {shutil.which("ssh")} -F {home}/client "$@"\n')
    client.chmod(0o755)
    variables.setenv("PATH", f"{home / 'bin'}:{os.environ['PATH']}")
    server = subprocess.Popen([program, "-D", "-e", "-f", home / "server"], stderr=subprocess.DEVNULL)
    try:
        wait(lambda: listens(port))
        yield Sshd(home, port)
    finally:
        server.terminate()
        server.wait()
