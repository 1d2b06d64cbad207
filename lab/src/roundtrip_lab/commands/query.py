"""`roundtrip-lab query`."""

import click


def register(group: click.Group) -> None:
    """Adds the command."""
