"""The command line: loads the subcommands, and turns errors into one line and an exit status.

Each module in `commands` has a function `register(group)` that adds one command. A command imports
slow modules inside its function, so that `--help` starts quickly.
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
    """Measure many devices with Roundtrip, collect their runs in a data set, and query it."""


for name in COMMANDS:
    importlib.import_module(f"roundtrip_lab.commands.{name}").register(lab)


def main() -> None:
    """Runs a command. Exit status 0: success. 1: a part failed, which the output names. 2: nothing was done."""
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
        # The reader closed the pipe. Python must not fail when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except OSError as error:
        # A full disk, or a folder without rights.
        status = refuse(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    sys.exit(status if isinstance(status, int) else 0)


def refuse(text: str) -> int:
    """Prints in one line why nothing was done. Returns exit status 2."""
    print(f"roundtrip-lab: {inert(' '.join(text.split()))}", file=sys.stderr)
    return 2
