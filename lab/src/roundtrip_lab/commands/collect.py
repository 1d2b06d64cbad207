"""`roundtrip-lab collect`: run directories into the data set."""

from pathlib import Path

import click

# As many rows are held before they are written: one file for each day and build.
BATCH_ROWS = 20_000


def register(group: click.Group) -> None:
    """Adds the command."""

    @group.command()
    @click.argument("runs", nargs=-1, required=True, metavar="RUN…", type=click.Path(path_type=Path))
    @click.option("--into", "path", required=True, metavar="DATASET", help="The data set; made if it is not there.")
    @click.option(
        "--roundtrip", metavar="PROGRAM", help="The binary that explains slow calls. [default: roundtrip on the path]"
    )
    @click.option("--no-explain", is_flag=True, help="Leave slow calls unexplained, which is quicker.")
    def collect(runs: tuple[Path, ...], path: str, roundtrip: str | None, no_explain: bool) -> int:
        """Add run directories to a data set.

        RUN is what `roundtrip --out` has made, or a folder of such runs at any depth. A run that is in the data
        set already is counted and left out. A damaged one is noted in DATASET/quarantine, and the status is 1.
        """
        from roundtrip_lab import collecting, explanations

        program = None if no_explain else explanations.find(roundtrip)
        result = collecting.collect(runs, path, program, BATCH_ROWS)
        for line in result.words(path):
            click.echo(line)
        return 1 if result.damaged else 0
