"""`roundtrip-lab serve`: a page over the data set."""

import click

from roundtrip_lab.commands.query import engine as engine_option
from roundtrip_lab.commands.query import order


def register(group: click.Group) -> None:
    """Adds the command."""

    @group.command("serve")
    @click.argument("dataset")
    @click.option("--runs", metavar="DIR", help="The folder of run directories, for reports.")
    @click.option("--roundtrip", default="roundtrip", show_default=True, metavar="BIN", help="The binary that makes reports.")
    @click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
    @click.option("--port", default=8080, show_default=True, type=click.IntRange(0, 65535))
    @click.option("--name", "names", multiple=True, metavar="HOST",
                  help="A host name under which browsers reach this page, such as a proxy's. May be repeated.")  # fmt: skip
    @click.option("--no-token", is_flag=True, help="Show the page to every user and program of this machine.")
    @click.option("--load", is_flag=True, help="Copy the data set to the ClickHouse server, again after each change.")
    @engine_option()
    @order()[0]
    @order()[1]
    def serve(
        dataset: str, runs: str | None, roundtrip: str, host: str, port: int, names: tuple[str, ...], no_token: bool, load: bool,
        engine: str | None, branch: str, by: str,
    ) -> None:  # fmt: skip
        """Show a data set in a browser.

        The page asks for the token in the address that this command prints. Only this machine can reach it, unless
        --host says otherwise.
        """
        import ipaddress
        import secrets
        import socket
        from pathlib import Path

        from roundtrip_lab import engines, queries
        from roundtrip_lab.dataset import DataSet
        from roundtrip_lab.errors import LabError

        try:
            import uvicorn

            from roundtrip_lab.answers import Answers
            from roundtrip_lab.serving import Page
        except ImportError as error:
            raise LabError(f"{error}; install it: pip install 'roundtrip-lab[serve]'") from error
        try:
            address = ipaddress.ip_address(host)
        except ValueError as error:
            raise LabError(f"--host {host!r} is no address: say 127.0.0.1, or 0.0.0.0 for all") from error
        if runs and not Path(runs).is_dir():
            raise LabError(f"--runs {runs}: no such folder")
        if no_token and not address.is_loopback:
            raise LabError("--no-token is for this machine only: without --host")
        answers = Answers(lambda: engines.connect(engine, DataSet.open(dataset), load), queries.Order(by, branch))
        token = None if no_token else secrets.token_urlsafe(24)
        listening = socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
            listening.listen(128)
        except OSError as error:
            raise LabError(f"cannot listen on {host} port {port}: {error.strerror}") from error
        answers.start()
        page = Page(answers, Path(runs) if runs else None, roundtrip, token, frozenset(name.lower() for name in names))
        shown = f"[{host}]" if address.version == 6 else host
        tail = f"?token={token}" if token else ""
        click.echo(f"http://{shown}:{listening.getsockname()[1]}/{tail}")
        config = uvicorn.Config(page.app(), log_level="error", access_log=False, server_header=False)
        uvicorn.Server(config).run(sockets=[listening])
