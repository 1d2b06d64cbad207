"""`roundtrip-lab run`: measures on many targets at once."""

import click


def register(group: click.Group) -> None:
    """Adds the command."""

    @group.command("run", context_settings={"ignore_unknown_options": True})
    @click.option("--into", "into", required=True, metavar="RUNS", help="The folder for the run directories.")
    @click.option("-t", "--target", "targets", multiple=True, required=True, metavar="TARGET",
                  help="local, ssh:[USER@]HOST[:PORT] or adb:SERIAL. May be repeated.")  # fmt: skip
    @click.option("--binaries", metavar="DIR", help="Where roundtrip-x86_64 and roundtrip-aarch64 are.  [default: target/dist]")
    @click.option("--jobs", default=16, show_default=True, type=click.IntRange(1, 256), help="How many targets at once.")
    @click.option("--timeout", default=600.0, show_default=True, type=click.FloatRange(1), help="Seconds for one target.")
    @click.option("--retries", default=2, show_default=True, type=click.IntRange(0, 10),
                  help="How often to connect again.")  # fmt: skip
    @click.option("--max-mb", default=512, show_default=True, type=click.IntRange(1), help="What a target may send.")
    @click.argument("arguments", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
    def run(into: str, targets: tuple[str, ...], binaries: str | None, jobs: int, timeout: float, retries: int,
            max_mb: int, arguments: tuple[str, ...]) -> int:  # fmt: skip
        """Run a command of Roundtrip on many targets, and bring the runs back.

        \b
        roundtrip-lab run --into runs -t local -t ssh:root@board-7 -- ipc latency --explain
        """
        from pathlib import Path

        from roundtrip_lab import reach
        from roundtrip_lab.errors import LabError

        places = [reach.target(text) for text in targets]
        names = [place.name for place in places]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise LabError(f"two targets would share the folder {twice}; name each once")
        if any(word == "--out" or word.startswith("--out=") for word in arguments):
            raise LabError("leave out --out: --into says where the runs go")
        try:
            Path(into).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LabError(f"cannot make {into}: {error.strerror}") from error
        folder = Path(binaries) if binaries else reach.dist()
        job = reach.Job(arguments, folder, Path(into), timeout, max_mb << 20)
        return measure(places, job, jobs, retries)


def measure(places: list, job: "reach.Job", jobs: int, retries: int) -> int:  # noqa: F821
    """Runs all, shows each as it ends, and sums up."""
    import signal
    import sys
    from concurrent.futures import ThreadPoolExecutor, as_completed

    from roundtrip_lab import reach
    from roundtrip_lab.words import inert

    def stop(*_: object) -> None:
        job.stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    failed = []
    try:
        with ThreadPoolExecutor(jobs) as pool:
            started = {pool.submit(reach.attempt, place, job, retries): place for place in places}
            for count, done in enumerate(as_completed(started), 1):
                place = started[done]
                try:
                    line = f"{place.text}: {done.result()}"
                except (reach.Failed, OSError) as error:
                    failed.append((place, str(error)))
                    line = f"{place.text}: failed"
                if sys.stderr.isatty():
                    click.echo(f"[{count}/{len(places)}] {inert(line)}", err=True)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    click.echo(f"{len(places) - len(failed)} of {len(places)} targets brought a run")
    for place, reason in failed:
        click.echo(f"failed: {inert(place.text)}: {inert(reason)}", err=True)
    return 130 if job.stopping.is_set() else bool(failed) + 0
