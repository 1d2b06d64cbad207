"""`roundtrip-lab feed`: prints results for other systems."""

import click


def register(group: click.Group) -> None:
    """Adds the command."""

    @group.command("feed")
    @click.argument("form", metavar="lava|kcidb|openmetrics", type=click.Choice(["lava", "kcidb", "openmetrics"]))
    @click.option("--from", "path", required=True, metavar="DATASET", help="The data set.")
    @click.option("--build", metavar="BUILD", help="Only this build.")
    @click.option("--device", "devices", multiple=True, metavar="NAME", help="Only this device. May be repeated.")
    @click.option("--since", type=click.DateTime(["%Y-%m-%d"]), metavar="DAY",
                  help="From this day on, such as 2026-11-24.")  # fmt: skip
    @click.option("--max-missed", default=0.0, show_default=True, type=click.FloatRange(0, 1),
                  help="lava, kcidb: the share of missed deadlines above which a series fails.")  # fmt: skip
    @click.option("--origin", default="roundtrip", show_default=True,
                  help="kcidb: the origin that submits the results.")  # fmt: skip
    @click.option("--kcidb-build", "pairs", multiple=True, metavar="BUILD=ID",
                  help="kcidb: the ID of BUILD in KCIDB. May be repeated.")  # fmt: skip
    def feed(form: str, path: str, build: str | None, devices: tuple[str, ...], since: object, max_missed: float,
             origin: str, pairs: tuple[str, ...]) -> None:  # fmt: skip
        """Print results as LAVA signals, KCIDB JSON or OpenMetrics."""
        import re

        from roundtrip_lab import engines, feeding, queries
        from roundtrip_lab.dataset import DataSet
        from roundtrip_lab.errors import LabError

        if not re.fullmatch("[a-z0-9_]+", origin):
            raise LabError(f"--origin {origin!r}: KCIDB takes small letters, digits and _")
        for pair in pairs:
            if not re.fullmatch("[^=]+=[a-z0-9_]+:[^\\0]*", pair):
                raise LabError(f"--kcidb-build {pair!r}: say BUILD=ORIGIN:ID")
        engine = engines.connect(None, DataSet.open(path))
        filters = queries.Filters(build=build, devices=devices, since=since.date() if since else None)
        wanted = filters.of(engine.series)
        rows = engine.run(wanted.select(*feeding.COLUMNS).order_by(["date", "run_id", "series"]))
        if form == "lava":
            text = feeding.lava(rows, max_missed)
        elif form == "kcidb":
            text = feeding.kcidb(rows, max_missed, origin, dict(pair.split("=", 1) for pair in pairs))
        else:
            try:
                text = feeding.openmetrics(rows)
            except ImportError as error:
                raise LabError(f"{error}; install it: pip install 'roundtrip-lab[feed]'") from error
        click.echo(text, nl=False)
