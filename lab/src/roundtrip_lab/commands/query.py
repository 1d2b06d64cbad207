"""`roundtrip-lab query`: questions to the data set."""

import datetime
from collections.abc import Callable

import click

FORMATS = ["table", "json", "csv", "markdown"]
TIMES = ["call", "request", "handling", "reply", "response", "oneway"]


def register(group: click.Group) -> None:
    """Adds the command, and a subcommand for each question."""

    @group.group()
    def query() -> None:
        """Ask a data set a question."""

    by = click.option("--by", default="build", show_default=True, help="A column (build, kernel, device, day, …) or label:KEY.")
    alpha = click.option("--alpha", default=0.01, show_default=True, type=click.FloatRange(0, 1, True, True),
                         help="The probability of any false alarm in the answer.")  # fmt: skip

    add(query, "percentiles", "Show percentiles of calls, from merged histograms.", by, limit(5))
    add(query, "misses", "Show which share of calls missed its deadline.", by)
    add(query, "worst-devices", "Show the devices with the most missed deadlines.", limit(20))
    add(query, "outliers", "Show devices that differ from their peers.", alpha)
    add(query, "causes", "Show what delayed slow calls; with --base and --new, what is new.", by, alpha, *builds())
    add(query, "layers", "Show where writes spend their time; with --base and --new, which layer became slower.", by, alpha,
        margin(0.03), *builds())  # fmt: skip
    add(query, "regressions", "Compare each build with the one before it.", alpha, margin(0.03), *builds())
    add(query, "changes", "Show since when the fleet is slower or faster.", alpha, margin(0.02),
        click.option("--by", help="Search each group by itself: a column or label:KEY."))  # fmt: skip


def builds() -> list[Callable]:
    """Options that name two builds."""
    return [
        click.option("--base", metavar="BUILD", help="The build that --new is compared with."),
        click.option("--new", metavar="BUILD", help="The build to judge."),
    ]


def limit(default: int) -> Callable:
    """The option for how many devices to show."""
    return click.option("--limit", default=default, show_default=True, type=click.IntRange(1, 10_000),
                        help="How many of the worst devices.")  # fmt: skip


def margin(default: float) -> Callable:
    """The option for what is too small to matter."""
    return click.option("--margin", default=default, show_default=True, type=click.FloatRange(0, 10),
                        help="Ratios that differ from 1 by less are the same.")  # fmt: skip


def add(query: click.Group, name: str, words: str, *options: Callable) -> None:
    """Adds one question with the options that all have."""
    day = click.DateTime(["%Y-%m-%d"])
    shared = [
        click.option("--from", "path", required=True, metavar="DATASET", help="The data set."),
        click.option("--engine", metavar="URL", help="duckdb, spark://local, spark://HOST:PORT, clickhouse://USER@HOST/DB."),
        click.option("--load", is_flag=True, help="Copy the data set to a ClickHouse server first."),
        click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True),
        click.option("--time", type=click.Choice(TIMES), default="call", show_default=True, help="The whole call, or a leg."),
        click.option("--series", metavar="TEXT", help="Only series whose name contains this."),
        click.option("--build", metavar="BUILD", help="Only this build."),
        click.option("--kernel", metavar="RELEASE", help="Only this kernel."),
        click.option("--device", "devices", multiple=True, metavar="NAME", help="Only this device. May be repeated."),
        click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Only runs with this label."),
        click.option("--since", type=day, metavar="DAY", help="From this day on: 2026-11-24."),
        click.option("--until", type=day, metavar="DAY", help="Up to this day."),
    ]

    def answer(path: str, engine: str | None, load: bool, form: str, **given: object) -> int:
        return ask(name.replace("-", "_"), path, engine, load, form, given)

    for option in [*reversed(shared), *reversed(options)]:
        answer = option(answer)
    query.command(name, help=words, short_help=words)(answer)


def ask(name: str, path: str, url: str | None, load: bool, form: str, given: dict) -> int:
    """Connects, asks and prints."""
    from roundtrip_lab import engines, queries, tables
    from roundtrip_lab.dataset import DataSet
    from roundtrip_lab.errors import LabError

    filters = queries.Filters(
        labels=tuple(pair(text) for text in given.pop("labels")),
        since=date(given.pop("since")),
        until=date(given.pop("until")),
        **{key: given.pop(key) for key in ("time", "series", "build", "kernel", "devices")},
    )
    if filters.since and filters.until and filters.since > filters.until:
        raise LabError(f"--since {filters.since} lies behind --until {filters.until}")
    engine = engines.connect(url, DataSet.open(path))
    if load:
        if not isinstance(engine, engines.ClickHouse):
            raise LabError("--load is for clickhouse://: other engines read the files themselves")
        engine.load()
    queries.check(engine, filters)
    result = getattr(queries, name)(engine, filters=filters, **given)
    click.echo(tables.text(result, form), nl=False)
    if result.empty and form == "table":
        click.echo("nothing found", err=True)
    return 0


def pair(text: str) -> tuple[str, str]:
    """KEY=VALUE."""
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise click.UsageError(f"--label {text!r}: say KEY=VALUE")
    return key, value


def date(day: datetime.datetime | None) -> datetime.date | None:
    """A day without its time."""
    return day.date() if day else None
