"""`roundtrip-lab simulate`."""

import click


def register(group: click.Group) -> None:
    """Adds the command."""
