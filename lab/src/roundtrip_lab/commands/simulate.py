"""`roundtrip-lab simulate`: generates the data set of a simulated fleet, to try the lab."""

from pathlib import Path

import click


def register(group: click.Group) -> None:
    """Adds the command."""

    @group.command()
    @click.argument("runs", nargs=-1, required=True, metavar="RUN…", type=click.Path(path_type=Path))
    @click.option("--into", "path", required=True, metavar="DATASET", help="The data set to create.")
    @click.option("--devices", default=1000, show_default=True, type=click.IntRange(1, 1_000_000))
    @click.option("--nights", default=30, show_default=True, type=click.IntRange(1, 3650))
    @click.option("--calls", default=200, show_default=True, type=click.IntRange(10, 100_000),
                  help="The number of calls per series and night.")  # fmt: skip
    @click.option("--seed", default=1, show_default=True, help="The seed of the random generator.")
    @click.option("--healthy", is_flag=True, help="Do not plant regressions or faulty devices.")
    def simulate(runs: tuple[Path, ...], path: str, devices: int, nights: int, calls: int, seed: int, healthy: bool) -> int:
        """Simulate a fleet's nightly runs into a new data set.

        Calls are drawn from the `ipc latency` histograms of RUN. If a RUN contains observed writes, from
        `roundtrip storage observe`, writes are drawn from them too. DATASET/planted.json lists the slower builds and
        the faulty devices. The driver of every row is `simulated`.
        """
        from roundtrip_lab import simulation

        plan = simulation.Plan(devices, nights, calls, seed, healthy)
        click.echo(simulation.simulate(runs, path, plan))
        return 0
