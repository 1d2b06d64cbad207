"""Runs a job on many targets at the same time: retries, progress, and a summary of failures."""

import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

import click

from roundtrip_lab.reach.conversation import Job, Talk
from roundtrip_lab.reach.kind import Failed, Stopped, Target
from roundtrip_lab.words import inert

# Seconds without a finished target before a line names the unfinished ones.
SILENCE_S = 60
# The longest pause before a retry, in seconds.
PAUSE_S = 30
# The number of targets that this line names.
NAMED = 3


class Work:
    """One target, with its attempts and their outcome."""

    def __init__(self, target: Target, job: Job, retries: int) -> None:
        self.target, self.job, self.retries = target, job, retries
        self.tries = 0
        self.stage = ""
        self.seconds = 0.0
        self.run: Path | None = None
        self.failed: Failed | None = None

    def do(self) -> None:
        """Repeats attempts after a failed connection, with pauses of 1 s, 2 s, 4 s..."""
        began = time.monotonic()
        try:
            if (self.job.into / self.target.name).exists():
                raise Failed(f"{self.job.into / self.target.name} already exists")
            while self.run is None:
                self.run = self.once()
        except Failed as failed:
            self.failed = failed
        self.seconds = time.monotonic() - began

    def once(self) -> Path | None:
        """One attempt, and the pause before a retry."""
        if self.job.stopping.is_set():
            raise Stopped
        self.tries += 1
        try:
            return Talk(self.target, self.job, self.at).fetch()
        except OSError as error:
            raise Failed(f"{error.filename or 'this machine'}: {error.strerror}") from error
        except Failed as failed:
            if not failed.again or self.tries > self.retries:
                raise
        self.at("waiting to retry")
        self.job.stopping.wait(min(2 ** (self.tries - 1), PAUSE_S))
        return None

    def at(self, stage: str) -> None:
        """Sets the current stage, which progress lines show."""
        self.stage = stage

    def outcome(self) -> str:
        """The run and its duration, or the reason of the failure and the number of attempts."""
        if self.run:
            return f"{self.run} ({self.seconds:.0f} s)"
        return f"failed: {self.failed}" + (f" ({self.tries} tries)" if self.tries > 1 else "")


def measure(works: list[Work], jobs: int) -> None:
    """Measures on all targets, `jobs` at a time. With several targets, prints a line as each finishes."""
    with ThreadPoolExecutor(jobs) as pool:
        pending = {pool.submit(work.do): work for work in works}
        while pending:
            ended, _ = wait(pending, SILENCE_S, FIRST_COMPLETED)
            if not ended:
                say(waiting(list(pending.values()), len(works)))
            for future in ended:
                future.result()
                work = pending.pop(future)
                if len(works) > 1 and not isinstance(work.failed, Stopped):
                    say(f"[{len(works) - len(pending)}/{len(works)}] {work.target.text}: {work.outcome()}")


def waiting(pending: list[Work], count: int) -> str:
    """The line that names the first few unfinished targets."""
    named = [f"{work.target.text} ({work.stage})" for work in pending if work.stage][:NAMED]
    more = [f"{len(pending) - len(named)} more"] if len(pending) > len(named) else []
    return f"[{count - len(pending)}/{count}] waiting for {', '.join(named + more)}"


def summary(works: list[Work]) -> bool:
    """Prints how many targets delivered a run, and why others failed. Returns whether all did."""
    failed = [work for work in works if work.failed]
    stopped = [work for work in failed if isinstance(work.failed, Stopped)]
    click.echo(f"{len(works) - len(failed)} of {len(works)} targets delivered a run")
    for work in failed:
        if work not in stopped:
            say(f"{work.target.text}: {work.outcome()}")
    if stopped:
        say(f"stopped: {len(stopped)} targets were not measured")
    return not failed


def say(line: str) -> None:
    """Prints a line on standard error."""
    click.echo(inert(line), err=True)
