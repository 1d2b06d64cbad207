"""A read-only web page for a data set: what each path shows, and who has access."""

import hmac
import ipaddress
import subprocess
import sys
import urllib.parse
from pathlib import Path

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from roundtrip_lab import engines, queries, views
from roundtrip_lab.answers import Answers
from roundtrip_lab.errors import LabError, NotFoundError
from roundtrip_lab.scratch import scratch
from roundtrip_lab.words import inert

POLICY = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
# The report is a separate page that contains its script and style and loads nothing.
REPORT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; font-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts allow-downloads"
)
COOKIE = "roundtrip_lab"
# The timeout for one report, in seconds.
REPORT_S = 60
# The maximum number of a device's runs that are shown: the newest ones.
MOST_RUNS = 500


class Page:
    """Renders pages from query results."""

    def __init__(
        self, answers: Answers, runs: Path | None, roundtrip: str, token: str | None, names: frozenset[str] = frozenset()
    ) -> None:
        self.answers, self.runs, self.roundtrip, self.token = answers, runs, roundtrip, token
        self.names = names | {"localhost"}
        loader = PackageLoader("roundtrip_lab", "pages")
        self.pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True,
                                 lstrip_blocks=True)  # fmt: skip

    def app(self) -> Starlette:
        """The application."""
        paths = {"/": self.overview, "/device": self.device, "/report": self.report,
                 "/report.css": self.style, "/style.css": self.style}  # fmt: skip
        return Starlette(routes=[Route(path, self.guarded(show), methods=["GET"]) for path, show in paths.items()])

    def guarded(self, show: callable) -> callable:
        """Requires a known host and the token, if there is one, and adds security headers to the response."""

        async def answer(request: Request) -> Response:
            response = self.admit(request)
            if response is None:
                try:
                    response = await run_in_threadpool(show, request)
                except NotFoundError as error:
                    response = self.page("error.html", 404, reason=str(error))
                except LabError as error:
                    response = self.page("error.html", 500, reason=str(error))
                except Exception as error:
                    print(f"roundtrip-lab: {request.url.path}: {inert(repr(error))}", file=sys.stderr)
                    response = self.page("error.html", 500, reason="This page failed; see the terminal that serves it.")
            response.headers.setdefault("Content-Security-Policy", POLICY)
            response.headers["X-Content-Type-Options"] = "nosniff"
            response.headers["Referrer-Policy"] = "no-referrer"
            response.headers["Cache-Control"] = "no-store"
            return response

        return answer

    def admit(self, request: Request) -> Response | None:
        """Returns None if the page may be shown. Otherwise a redirect that stores the token as a cookie, or an error."""
        if not self.is_known(request.headers.get("host", "")):
            return self.page(
                "error.html", 421, reason="Open the address that roundtrip-lab serve printed, or allow this name with --name."
            )
        if self.token is None:
            return None
        given = request.query_params.get("token")
        if given is not None and same(given, self.token):
            clean = request.url.remove_query_params("token")
            response = RedirectResponse(clean.path + (f"?{clean.query}" if clean.query else ""), 303)
            response.set_cookie(COOKIE, self.token, httponly=True, samesite="strict")
            return response
        if same(request.cookies.get(COOKIE, ""), self.token):
            return None
        return self.page("error.html", 403, reason="Open the address with the token that roundtrip-lab serve printed.")

    def is_known(self, host: str) -> bool:
        """Whether a request names this server by an address, as localhost or by an allowed name.

        A foreign page can give its own name the address of this server (DNS rebinding). Its requests have its name.
        """
        try:
            name = urllib.parse.urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        try:
            return bool(ipaddress.ip_address(name))
        except ValueError:
            return name in self.names

    def page(self, template: str, status: int = 200, /, **values: object) -> HTMLResponse:
        """A page from its template."""
        return HTMLResponse(self.pages.get_template(template).render(**values), status)

    def style(self, request: Request) -> Response:
        """A style sheet."""
        text = self.pages.loader.get_source(self.pages, request.url.path.removeprefix("/"))[0]
        return Response(text, media_type="text/css")

    def overview(self, request: Request) -> HTMLResponse:
        """Trends by build with the regressions marked, the fleet's distribution, and its devices."""
        wanted = request.query_params.get("series") or None
        fleet = self.answers.fleet()
        compared = fleet.regressions is not None
        worse = views.worse_builds(fleet.regressions) if compared else {}

        def of(answer: pd.DataFrame | None) -> pd.DataFrame | None:
            return answer if wanted is None or answer is None else answer[answer["series"] == wanted]

        def shown(answer: pd.DataFrame | None) -> dict | None:
            return None if answer is None else views.table(of(answer))

        series = views.series(of(fleet.percentiles), of(fleet.distribution), of(fleet.layers), worse, fleet.builds)
        if wanted is not None and not series:
            raise NotFoundError(f"the data set has no series {inert(wanted)!r}")
        proven = verdicts = of(fleet.regressions)
        if compared:
            proven = proven[proven["verdict"] == "worse"].drop(columns=["verdict", "lacks"])
            lacks = [text for text in dict.fromkeys(verdicts["lacks"]) if text]
            # Only if nothing could be judged.
            proven.attrs["lacks"] = verdicts.attrs.get("lacks") or (
                lacks[0] if (verdicts["lacks"] != "").all() and lacks else ""
            )
        return self.page(
            "overview.html",
            wanted=wanted,
            asked=fleet.asked,
            complete=fleet.complete,
            headline=views.headline(series, fleet.percentiles, verdicts),
            series=series,
            regressions=shown(proven),
            changes=shown(fleet.changes),
            worst=shown(fleet.worst),
            outliers=shown(fleet.outliers),
        )

    def device(self, request: Request) -> HTMLResponse:
        """One device, and its runs."""
        name = request.query_params.get("name", "")
        found = self.answers.run(lambda engine: device_of(engine, name))
        if found is None:
            raise NotFoundError(f"the data set has no device {inert(name)!r}")
        percentiles, distribution, layers, runs = found
        sources = runs.drop_duplicates("run_id").tail(MOST_RUNS)
        listed = views.runs(sources, {source: self.folder(source) is not None for source in sources["source"]})
        shown = views.series(percentiles, distribution, layers, {}, self.answers.fleet().builds)
        return self.page("device.html", device=inert(name), name=name, series=shown, runs=listed)

    def folder(self, source: str) -> Path | None:
        """The run directory of this name, if it lies in the folder of runs."""
        if self.runs is None or not source or "/" in source or source in (".", "..") or "\0" in source:
            return None
        path = self.runs / source
        return path if path.is_dir() and not path.is_symlink() and (path / "run.json").is_file() else None

    def report(self, request: Request) -> HTMLResponse:
        """The HTML report of one run, made by the binary."""
        run, device = request.query_params.get("run", ""), request.query_params.get("device", "")

        def source(engine: engines.Engine) -> pd.DataFrame:
            # Rows are sorted by device: without this filter, all files would be read completely.
            rows = engine.series
            return engine.run(rows.filter((rows.device == device) & (rows.run_id == run)).select("source").limit(1))

        found = self.answers.run(source)
        folder = None if found.empty else self.folder(found["source"][0])
        if folder is None:
            raise NotFoundError("the directory of this run was not found; pass its parent with --runs")
        with scratch() as made:
            to = made / "report.html"
            command = [self.roundtrip, "report", str(folder.resolve()), "-o", str(to)]
            try:
                done = subprocess.run(command, capture_output=True, timeout=REPORT_S, stdin=subprocess.DEVNULL)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise LabError(f"cannot create the report: {error}") from error
            if done.returncode != 0 or not to.is_file():
                silent = f"signal {-done.returncode} killed it" if done.returncode < 0 else "it printed no error"
                said = done.stderr.decode(errors="replace").strip().splitlines() or [silent]
                raise LabError(f"roundtrip report failed: {inert(said[-1])}")
            return HTMLResponse(to.read_bytes(), headers={"Content-Security-Policy": REPORT_POLICY})


def same(given: str, token: str) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(given.encode(), token.encode())


def device_of(engine: engines.Engine, name: str) -> tuple | None:
    """The results and runs of one device, read from the files once. None if the data set has no such device."""
    filters = queries.Filters(devices=(name,))
    few = queries.fetched(engine, name)
    rows = few.series.filter(few.series.time == "call")
    kept = rows.select("run_id", "source", "date", "build", "series", "calls", "missed", "p50_ns", "p99_ns", "max_ns")
    runs = few.run(kept.order_by(["date", "series"]))
    if runs.empty:
        return None
    of = (queries.percentiles, queries.distribution, queries.layers)
    return *(ask(few, filters=filters) for ask in of), runs
