"""`roundtrip-lab run`: measures on many targets at the same time."""

from typing import Any

import click

from roundtrip_lab import reach


def register(group: click.Group) -> None:
    """Adds the command."""

    @group.command("run", context_settings={"ignore_unknown_options": True})
    @click.option("--into", "into", required=True, metavar="RUNS", help="The directory for the run directories.")
    @click.option("-t", "--target", "targets", multiple=True, required=True, metavar="TARGET",
                  help=f"{reach.syntax()}. May be repeated.")  # fmt: skip
    @click.option("--binaries", metavar="DIR",
                  help="The directory with roundtrip-x86_64 and roundtrip-aarch64.  [default: target/dist]")  # fmt: skip
    @click.option("--jobs", default=16, show_default=True, type=click.IntRange(1, 256),
                  help="The number of targets to measure at the same time.")  # fmt: skip
    @click.option("--timeout", default=600.0, show_default=True, type=click.FloatRange(1),
                  help="Seconds for one attempt.")  # fmt: skip
    @click.option("--retries", default=2, show_default=True, type=click.IntRange(0, 10),
                  help="How often to retry a failed connection.")  # fmt: skip
    @click.option("--max-mb", default=512, show_default=True, type=click.IntRange(1),
                  help="The most data to accept from a target, in MiB.")  # fmt: skip
    @reach.options
    @click.argument("arguments", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
    def run(into: str, targets: tuple[str, ...], binaries: str | None, jobs: int, timeout: float, retries: int,
            max_mb: int, arguments: tuple[str, ...], **given: Any) -> int:  # fmt: skip
        """Run a Roundtrip command on many targets, and copy the runs back.

        \b
        roundtrip-lab run --into runs -t local -t ssh:root@board-7 -- ipc latency --explain

        'adb:*' selects all devices that adb lists. 'labgrid:PATTERN' and 'labgrid:TAG=VALUE,...'
        select all places that match.
        """
        from pathlib import Path

        from roundtrip_lab.errors import LabError
        from roundtrip_lab.reach.conversation import Job

        if any(word == "--out" or word.startswith("--out=") for word in arguments):
            raise LabError("leave out --out: --into says where the runs go")
        folder = Path(binaries) if binaries else dist()
        job = Job(arguments, folder, Path(into), timeout, max_mb << 20)
        with reach.reached(targets, given) as found:
            names = [target.name for target in found]
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise LabError(f"two targets would share the folder {twice}")
            try:
                Path(into).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise LabError(f"cannot make {into}: {error.strerror}") from error
            return measure(found, job, jobs, retries)


def measure(targets: list, job: "Job", jobs: int, retries: int) -> int:  # noqa: F821
    """Measures on all targets until done or interrupted by a signal. Returns the exit status."""
    import signal

    from roundtrip_lab.reach import progress

    def stop(*_: object) -> None:
        job.stopping.set()

    works = [progress.Work(target, job, retries) for target in targets]
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        progress.measure(works, jobs)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    done = progress.summary(works)
    return 130 if job.stopping.is_set() else int(not done)


def dist() -> "Path":  # noqa: F821
    """The default directory of the binaries: that of roundtrip-x86_64 on the path, or target/dist."""
    import shutil
    from pathlib import Path

    found = shutil.which("roundtrip-x86_64")
    return Path(found).parent if found else Path("target/dist")
