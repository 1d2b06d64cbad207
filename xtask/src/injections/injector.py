"""Disturbs a measurement from outside in one known way, and logs when.

    injector.py KIND LOG CPU DIRECTORY EVERY_MS FOR_MS [PID ...]

Every EVERY_MS milliseconds it disturbs for about FOR_MS. Each line of the log is one stretch in which
it did: cause,tid,begin_ns,end_ns in CLOCK_BOOTTIME, like injected.csv. CPU is that of the victims, PID are the
victims, DIRECTORY is on the file system that they write to. It runs until it is ended by SIGTERM, which
puts everything back.

A program that uses a CPU logs only the stretches in which it really had it: it reads the clock all the time,
and a jump of the clock ends a stretch. Its processes are named "inj-KIND". Knows nothing of what is measured.
"""

import ctypes
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

EVERY_NS, FOR_NS = (int(ms) * 1_000_000 for ms in sys.argv[5:7])
# A longer time between two readings of the clock is time without the CPU.
JUMP_NS = 100_000
FIFO_50 = 50

libc = ctypes.CDLL(None, use_errno=True)
undo = []


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def checked(result):
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def rename(name):
    pathlib.Path("/proc/thread-self/comm").write_text(name)


def fifo(priority=FIFO_50):
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))


class Injector:
    """What all kinds share: where, whom, and the log."""

    def __init__(self, kind, log, cpu, directory, pids):
        self.kind, self.cpu, self.directory, self.pids = kind, cpu, directory, pids
        self.log = os.open(log, os.O_WRONLY | os.O_APPEND)

    def note(self, *stretches):
        tid = threading.get_native_id()
        lines = "".join(f"{self.kind},{tid},{begin},{end}\n" for begin, end in stretches)
        os.write(self.log, lines.encode())

    def pulses(self):
        """The start of each disturbance, at the same instants in all processes."""
        while True:
            begin_ns = (now() // EVERY_NS + 1) * EVERY_NS
            time.sleep((begin_ns - now()) / 1e9)
            yield now()

    def tids(self):
        for pid in self.pids:
            try:
                yield from map(int, os.listdir(f"/proc/{pid}/task"))
            except FileNotFoundError as error:
                raise ProcessLookupError(pid) from error

    def spin(self, until_ns):
        """Uses the CPU, and logs when it had that of the victims."""
        begin = last = now()
        stretches = []
        on = libc.sched_getcpu() == self.cpu
        while last < until_ns:
            at, on_now = now(), libc.sched_getcpu() == self.cpu
            if at - last > JUMP_NS or on_now != on:
                if on:
                    stretches.append((begin, last))
                begin, on = at, on_now
            last = at
        if on:
            stretches.append((begin, last))
        self.note(*stretches)

    def here(self):
        os.sched_setaffinity(0, {self.cpu})


def several(count, body):
    """Runs a body in several processes, which end with this one."""
    for _ in range(count):
        if os.fork() == 0:
            libc.prctl(1, signal.SIGKILL)
            body()
            os._exit(0)
    signal.pause()


def hog(of):
    of.here()
    fifo()
    for begin_ns in of.pulses():
        of.spin(begin_ns + FOR_NS)


def crowd(of):
    """Several processes at once, not real-time ones."""

    def one():
        of.here()
        os.nice(-10)
        for begin_ns in of.pulses():
            of.spin(begin_ns + 3 * FOR_NS)

    several(4, one)


def deadline(of):
    """A process of the deadline class on every CPU: such processes may not choose their CPU."""

    class Attributes(ctypes.Structure):
        _fields_ = [
            ("size", ctypes.c_uint32),
            ("policy", ctypes.c_uint32),
            ("flags", ctypes.c_uint64),
            ("nice", ctypes.c_int32),
            ("priority", ctypes.c_uint32),
            ("runtime", ctypes.c_uint64),
            ("deadline", ctypes.c_uint64),
            ("period", ctypes.c_uint64),
        ]

    def one():
        wanted = Attributes(48, 6, 0, 0, 0, 20_000_000, 100_000_000, 100_000_000)
        checked(libc.syscall(ctypes.c_long(314), 0, ctypes.byref(wanted), 0))
        for begin_ns in of.pulses():
            of.spin(begin_ns + FOR_NS)

    several(os.cpu_count(), one)


def storm(of):
    """Many short processes, one after the other."""
    of.here()
    fifo()
    for begin_ns in of.pulses():
        while now() < begin_ns + FOR_NS:
            pid = os.fork()
            if pid == 0:
                end_ns = now() + 1_000_000
                while now() < end_ns:
                    pass
                os._exit(0)
            os.waitpid(pid, 0)
        of.note((begin_ns, now()))


def threads(of):
    """Many threads of one process, each with a name of its own, one after the other."""
    count = 6
    of.here()
    sys.setswitchinterval(0.0005)
    fifo()

    def work(number, turn):
        rename(f"worker-{number}")
        while True:
            turn.wait()
            end_ns = now() + FOR_NS // count
            while now() < end_ns:
                pass
            turn.wait()

    turn = threading.Barrier(count + 1)
    for number in range(count):
        threading.Thread(target=work, args=(number, turn), daemon=True).start()
    for _ in of.pulses():
        begin_ns = now()
        turn.wait()
        turn.wait()
        of.note((begin_ns, now()))


def demote(of):
    """Makes the victims SCHED_IDLE beside a process that is not real-time."""

    def all_are(policy):
        for tid in of.tids():
            os.sched_setscheduler(tid, policy, os.sched_param(0))

    of.here()
    os.nice(-20)
    undo.append(lambda: all_are(os.SCHED_OTHER))
    for begin_ns in of.pulses():
        all_are(os.SCHED_IDLE)
        of.spin(begin_ns + 2 * FOR_NS)
        all_are(os.SCHED_OTHER)


def move(of):
    """Moves the victims to the CPU of a real-time process."""
    of.here()
    fifo()

    def to(cpus):
        for tid in of.tids():
            os.sched_setaffinity(tid, cpus)

    everywhere = set(range(os.cpu_count()))
    undo.append(lambda: to(everywhere))
    for begin_ns in of.pulses():
        to({of.cpu})
        of.spin(begin_ns + FOR_NS)
        to(everywhere)


def everywhere(of):
    """A real-time process on every CPU, so that no ordinary thread runs: also no kernel worker."""

    def on(cpu):
        os.sched_setaffinity(0, {cpu})
        fifo()
        of.cpu = cpu
        for begin_ns in of.pulses():
            of.spin(begin_ns + FOR_NS)

    for cpu in range(os.cpu_count()):
        if os.fork() == 0:
            libc.prctl(1, signal.SIGKILL)
            on(cpu)
    signal.pause()


def stop(of):
    def send(number):
        for pid in of.pids:
            os.kill(pid, number)

    undo.append(lambda: send(signal.SIGCONT))
    fifo()
    for _ in of.pulses():
        begin_ns = now()
        send(signal.SIGSTOP)
        time.sleep(FOR_NS / 1e9)
        send(signal.SIGCONT)
        of.note((begin_ns, now()))


def trace(of):
    """Stops the victims as a debugger does that looks at them and goes away."""
    seize, interrupt, detach = 0x4206, 0x4207, 17

    def ptrace(request, tid):
        try:
            checked(libc.ptrace(ctypes.c_long(request), ctypes.c_long(tid), None, None))
        except PermissionError as error:
            # A thread that is ending cannot be traced.
            raise ProcessLookupError(tid) from error

    fifo()
    for _ in of.pulses():
        begin_ns = now()
        tids = list(of.tids())
        for tid in tids:
            ptrace(seize, tid)
            ptrace(interrupt, tid)
        for tid in tids:
            os.waitpid(tid, 0x40000000)
        time.sleep(FOR_NS / 1e9)
        for tid in tids:
            ptrace(detach, tid)
        of.note((begin_ns, now()))


def group(controller):
    """A new control group, removed at the end. Returns its folder, and whether it is of version 2."""
    first = pathlib.Path("/sys/fs/cgroup") / controller
    two = not first.exists()
    parent = pathlib.Path("/sys/fs/cgroup") if two else first
    folder = parent / f"roundtrip-injections-{os.getpid()}"
    if two:
        (parent / "cgroup.subtree_control").write_text(f"+{controller}")
    folder.mkdir()

    def remove():
        for pid in (folder / "cgroup.procs").read_text().split():
            (parent / "cgroup.procs").write_text(pid)
        for _ in range(50):
            try:
                return folder.rmdir()
            except OSError:
                time.sleep(0.02)

    undo.append(remove)
    return folder, two


def join(folder, of):
    for pid in of.pids:
        (folder / "cgroup.procs").write_text(str(pid))


def freeze(of):
    folder, two = group("freezer")
    name, on, off = ("cgroup.freeze", "1", "0") if two else ("freezer.state", "FROZEN", "THAWED")
    file = folder / name
    join(folder, of)
    undo.append(lambda: file.write_text(off))
    fifo()
    for _ in of.pulses():
        begin_ns = now()
        file.write_text(on)
        time.sleep(FOR_NS / 1e9)
        file.write_text(off)
        of.note((begin_ns, now()))


def quota(of):
    """A CPU quota. Watches when it is used up."""
    folder, two = group("cpu")
    if two:
        (folder / "cpu.max").write_text("5000 100000")
    else:
        (folder / "cpu.cfs_period_us").write_text("100000")
        (folder / "cpu.cfs_quota_us").write_text("5000")
    join(folder, of)
    fifo()
    stat = os.open(folder / "cpu.stat", os.O_RDONLY)

    def throttled_ns():
        fields = os.pread(stat, 4096, 0).decode().split()
        values = dict(zip(fields[::2], map(int, fields[1::2])))
        return values["throttled_usec"] * 1000 if two else values["throttled_time"]

    before_ns = throttled_ns()
    while True:
        time.sleep(0.0005)
        # The kernel adds the time when it ends.
        ended_ns, after_ns = now(), throttled_ns()
        if after_ns > before_ns:
            of.note((ended_ns - (after_ns - before_ns), ended_ns))
        before_ns = after_ns


def packets(of):
    """Packets for many sockets, received in softirqs on the victims' CPU."""
    steering = pathlib.Path("/sys/class/net/lo/queues/rx-0/rps_cpus")
    before = steering.read_text()
    undo.append(lambda: steering.write_text(before))
    steering.write_text(f"{1 << of.cpu:x}")
    address = "239.7.7.7"
    sockets = []
    for _ in range(400):
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        one.bind((address, 47_777))
        joined = socket.inet_aton(address) + socket.inet_aton("127.0.0.1")
        one.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, joined)
        sockets.append(one)
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
    out.connect((address, 47_777))
    os.sched_setaffinity(0, set(range(os.cpu_count())) - {of.cpu})
    fifo()
    for begin_ns in of.pulses():
        while now() < begin_ns + FOR_NS:
            out.send(b"x")
        of.note((begin_ns, now()))


def iolimit(of):
    """A limit on the control group's writes to the device."""
    folder, two = group("io" if pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists() else "blkio")
    device = os.stat(of.directory).st_dev
    block = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    if (block / "partition").exists():
        block = block.parent
    number = (block / "dev").read_text().strip()
    name, on, off = ("io.max", "wiops=100", "wiops=max")
    if not two:
        name, on, off = ("blkio.throttle.write_iops_device", "100", "0")
    join(folder, of)
    fifo()
    for _ in of.pulses():
        begin_ns = now()
        (folder / name).write_text(f"{number} {on}")
        time.sleep(0.1)
        (folder / name).write_text(f"{number} {off}")
        of.note((begin_ns, now()))


def inode(of):
    """Holds the lock of the victims' file: writes a lot to it synchronously."""
    name = next(entry.path for entry in os.scandir(of.directory) if entry.name.startswith("victim"))
    file = os.open(name, os.O_RDWR | os.O_DIRECT | os.O_DSYNC)
    import mmap

    buffer = mmap.mmap(-1, 8 << 20)
    for _ in of.pulses():
        begin_ns = now()
        os.pwrite(file, buffer, 0)
        of.note((begin_ns, now()))


KINDS = {
    "hog": hog,
    "crowd": crowd,
    "deadline": deadline,
    "storm": storm,
    "threads": threads,
    "demote": demote,
    "move": move,
    "everywhere": everywhere,
    "stop": stop,
    "trace": trace,
    "freeze": freeze,
    "quota": quota,
    "packets": packets,
    "iolimit": iolimit,
    "inode": inode,
}


def main():
    kind, log, cpu, directory, _, _, *pids = sys.argv[1:]
    rename(f"inj-{kind}")

    def end(*_):
        raise SystemExit

    signal.signal(signal.SIGTERM, end)
    try:
        KINDS[kind](Injector(kind, log, int(cpu), directory, list(map(int, pids))))
    except (ProcessLookupError, ChildProcessError):
        # The victims have ended.
        pass
    finally:
        for step in reversed(undo):
            try:
                step()
            except OSError:
                pass


main()
