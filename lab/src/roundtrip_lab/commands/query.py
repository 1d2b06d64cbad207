"""`roundtrip-lab query`: queries a data set."""

import datetime
from collections.abc import Callable

import click

FORMATS = ["table", "json", "csv", "markdown"]
TIMES = ["call", "request", "handling", "reply", "response", "oneway"]


def register(group: click.Group) -> None:
    """Adds the command, with a subcommand for each query."""

    @group.group()
    def query() -> None:
        """Query a data set."""

    by = click.option("--by", default="build", show_default=True,
                      help="Group by a column (build, kernel, device, day, …) or by label:KEY.")  # fmt: skip
    add(query, "percentiles", "Show percentiles of calls, from merged histograms.", by, limit(5))
    add(query, "misses", "Show the share of calls that missed the deadline.", by)
    add(query, "worst-devices", "Show the devices with the most missed deadlines.", limit(20))
    add(query, "outliers", "Show devices that differ from their peers.", alpha(0.005))
    add(query, "causes", "Show what delayed slow calls; with --base and --new, which causes differ.", by, alpha(0.01), *builds())
    add(query, "layers", "Show where writes spend their time; with --base and --new, which layer became slower.", by, alpha(0.01),
        margin(0.03), *builds())  # fmt: skip
    add(query, "builds", "Show the order of builds on each branch.", *order())
    add(query, "regressions", "Compare each build with the one before it on its branch.", alpha(0.003), margin(0.03), *builds(),
        *order())  # fmt: skip
    add(query, "changes", "Show since which day the fleet is slower or faster.", alpha(0.002), margin(0.02), branch(),
        click.option("--by", help="Search each group separately: a column or label:KEY."))  # fmt: skip


def engine() -> Callable:
    """The option that selects an engine."""
    return click.option("--engine", metavar="URL",
                        help="duckdb (the default), spark://local, spark://HOST:PORT or "
                        "clickhouse://USER:PASSWORD@HOST:PORT/DATABASE, with the HTTP port.")  # fmt: skip


def branch() -> Callable:
    """The option that names the label of a branch."""
    return click.option("--branch", default="branch", show_default=True, metavar="KEY",
                        help="The label that names a build's branch.")  # fmt: skip


def order() -> list[Callable]:
    """The options that say how builds follow one another."""
    return [
        branch(),
        click.option("--order", "by", default="days", show_default=True, metavar="ORDER",
                     help="days (on which devices first ran a build), label:KEY, git:REPOSITORY, or a file with a "
                     "build on each line, the oldest first."),  # fmt: skip
    ]


def builds() -> list[Callable]:
    """The options that select two builds."""
    return [
        click.option("--base", metavar="BUILD", help="The build that --new is compared with."),
        click.option("--new", metavar="BUILD", help="The build to judge."),
    ]


def alpha(default: float) -> Callable:
    """The option for how certain an answer is."""
    return click.option("--alpha", default=default, show_default=True, type=click.FloatRange(0, 1, True, True),
                        help="The probability that the answer contains a false alarm.")  # fmt: skip


def limit(default: int) -> Callable:
    """The option that limits the number of devices."""
    return click.option("--limit", default=default, show_default=True, type=click.IntRange(1, 10_000),
                        help="The number of worst devices to show.")  # fmt: skip


def margin(default: float) -> Callable:
    """The option for the smallest difference that matters."""
    return click.option("--margin", default=default, show_default=True, type=click.FloatRange(0, 10),
                        help="A smaller relative difference counts as the same.")  # fmt: skip


def add(query: click.Group, name: str, words: str, *options: Callable) -> None:
    """Adds a query with its options and the options that all queries share."""
    day = click.DateTime(["%Y-%m-%d"])
    shared = [
        click.option("--from", "path", required=True, metavar="DATASET", help="The data set."),
        engine(),
        click.option("--load", is_flag=True, help="Copy the data set to the ClickHouse server first, unless it has this copy."),
        click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True),
        click.option("--time", type=click.Choice(TIMES), default="call", show_default=True,
                     help="The whole call, or one of its legs."),  # fmt: skip
        click.option("--series", metavar="TEXT", help="Only series whose names contain TEXT."),
        click.option("--build", metavar="BUILD", help="Only this build."),
        click.option("--kernel", metavar="RELEASE", help="Only this kernel."),
        click.option("--device", "devices", multiple=True, metavar="NAME", help="Only this device. May be repeated."),
        click.option("--label", "labels", multiple=True, metavar="KEY=VALUE",
                     help="Only runs with this label. May be repeated."),  # fmt: skip
        click.option("--since", type=day, metavar="DAY", help="From this day on, such as 2026-11-24."),
        click.option("--until", type=day, metavar="DAY", help="Up to and including this day."),
    ]

    def answer(path: str, engine: str | None, load: bool, form: str, **given: object) -> int:
        return ask(name.replace("-", "_"), path, engine, load, form, given)

    for option in [*reversed(shared), *reversed(options)]:
        answer = option(answer)
    query.command(name, help=words, short_help=words)(answer)


def ask(name: str, path: str, url: str | None, load: bool, form: str, given: dict) -> int:
    """Connects to the engine, runs the query and prints the answer."""
    from roundtrip_lab import engines, queries, tables
    from roundtrip_lab.dataset import DataSet
    from roundtrip_lab.errors import LabError
    from roundtrip_lab.words import inert

    filters = queries.Filters(
        labels=tuple(pair(text) for text in given.pop("labels")),
        since=date(given.pop("since")),
        until=date(given.pop("until")),
        **{key: given.pop(key) for key in ("time", "series", "build", "kernel", "devices")},
    )
    if filters.since and filters.until and filters.since > filters.until:
        raise LabError(f"--since {filters.since} lies behind --until {filters.until}")
    if "branch" in given:
        by = {"by": given.pop("by")} if name in ("builds", "regressions") else {}
        given["order"] = queries.Order(branch=given.pop("branch"), **by)
    engine = engines.connect(url, DataSet.open(path), load)
    queries.check(engine, filters)
    if name == "builds":
        result = queries.builds(engine, **given)
    else:
        result = getattr(queries, name)(engine, filters=filters, **given)
    click.echo(tables.text(result, form), nl=False)
    if result.attrs.get("lacks"):
        click.echo(f"cannot be judged: {inert(result.attrs['lacks'])}", err=True)
    elif result.empty and form == "table":
        click.echo("nothing found", err=True)
    return 0


def pair(text: str) -> tuple[str, str]:
    """Parses KEY=VALUE."""
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise click.UsageError(f"--label {text!r}: say KEY=VALUE")
    return key, value


def date(day: datetime.datetime | None) -> datetime.date | None:
    """Drops the time of day."""
    return day.date() if day else None
