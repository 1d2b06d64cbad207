"""`roundtrip-lab collect`: adds run directories to a data set."""

from pathlib import Path

import click

# Rows are buffered up to this number, so that each day and build gets one large file.
BATCH_ROWS = 20_000


def register(group: click.Group) -> None:
    """Adds the command."""

    @group.command()
    @click.argument("runs", nargs=-1, required=True, metavar="RUN…", type=click.Path(path_type=Path))
    @click.option("--into", "path", required=True, metavar="DATASET",
                  help="The data set. Created if it does not exist.")  # fmt: skip
    @click.option(
        "--roundtrip", metavar="PROGRAM", help="The roundtrip binary that explains slow calls. [default: roundtrip on the path]"
    )
    @click.option("--no-explain", is_flag=True, help="Do not explain slow calls. This is faster.")
    def collect(runs: tuple[Path, ...], path: str, roundtrip: str | None, no_explain: bool) -> int:
        """Add run directories to a data set.

        RUN is a run directory from `roundtrip --out`, or a directory that contains runs at any depth. Runs that
        the data set already contains are skipped and counted. An invalid run is recorded in DATASET/quarantine,
        and the exit status is 1.
        """
        from roundtrip_lab import collecting, explanations

        program = None if no_explain else explanations.find(roundtrip)
        result = collecting.collect(runs, path, program, BATCH_ROWS)
        for line in result.words(path):
            click.echo(line)
        return 1 if result.damaged else 0
