"""The command line: it loads the subcommands, and turns errors into one line and a status.

Each module in `commands` has a function `register(group)`, which adds one command. A command imports
what is slow to load inside its function, so that `--help` answers at once.
"""

import importlib
import os
import sys

import click

from roundtrip_lab import __version__
from roundtrip_lab.errors import LabError
from roundtrip_lab.words import inert

COMMANDS = ["collect", "query", "simulate", "run", "serve", "feed"]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="roundtrip-lab")
def lab() -> None:
    """Measure many devices with Roundtrip, keep their runs in one data set, and ask it questions."""


for name in COMMANDS:
    importlib.import_module(f"roundtrip_lab.commands.{name}").register(lab)


def main() -> None:
    """Runs a command. 0: done. 1: a part of it failed, which the output names. 2: invalid usage."""
    try:
        status = lab.main(standalone_mode=False)
        sys.stdout.flush()
    except LabError as error:
        status = refuse(str(error))
    except click.ClickException as error:
        status = refuse(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        print("roundtrip-lab: interrupted", file=sys.stderr)
        status = 130
    except BrokenPipeError:
        # The reader of the output has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except OSError as error:
        # A full disk, or a folder without rights.
        status = refuse(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    sys.exit(status if isinstance(status, int) else 0)


def refuse(text: str) -> int:
    """Says in one line why nothing was done."""
    print(f"roundtrip-lab: {inert(' '.join(text.split()))}", file=sys.stderr)
    return 2
