"""A read-only page over a data set: what each path shows, and who may see it."""

import hmac
import re
import subprocess
import tempfile
import threading
from pathlib import Path

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from roundtrip_lab import engines, queries, tables
from roundtrip_lab.errors import LabError
from roundtrip_lab.words import inert

POLICY = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
# The report is a page of its own: it holds its script and style, and reaches nothing.
REPORT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; font-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts allow-downloads"
)
COOKIE = "roundtrip_lab"
# How long one report may take.
REPORT_S = 60
SHOWN = 50


class Page:
    """The data set, and what makes its pages."""

    def __init__(self, engine: engines.Engine, runs: Path | None, roundtrip: str, token: str | None) -> None:
        self.engine, self.runs, self.roundtrip, self.token = engine, runs, roundtrip, token
        # An engine's connection answers one question at a time.
        self.lock = threading.Lock()
        loader = PackageLoader("roundtrip_lab", "pages")
        self.pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)

    def app(self) -> Starlette:
        """The application."""
        paths = {"/": self.overview, "/device": self.device, "/report": self.report, "/style.css": self.style}
        return Starlette(routes=[Route(path, self.guarded(show), methods=["GET"]) for path, show in paths.items()])

    def guarded(self, show: callable) -> callable:
        """Asks for the token, if there is one, and makes answers safe."""

        async def answer(request: Request) -> Response:
            response = self.admit(request)
            if response is None:
                try:
                    response = await run_in_threadpool(show, request)
                except LabError as error:
                    response = self.page("error.html", 404, reason=str(error))
            response.headers.setdefault("Content-Security-Policy", POLICY)
            response.headers["X-Content-Type-Options"] = "nosniff"
            response.headers["Referrer-Policy"] = "no-referrer"
            response.headers["Cache-Control"] = "no-store"
            return response

        return answer

    def admit(self, request: Request) -> Response | None:
        """Nothing, for who may see the page. The address with the token becomes a cookie."""
        if self.token is None:
            return None
        given = request.query_params.get("token")
        if given is not None and same(given, self.token):
            response = RedirectResponse(str(request.url.path), 303)
            response.set_cookie(COOKIE, self.token, httponly=True, samesite="strict")
            return response
        if same(request.cookies.get(COOKIE, ""), self.token):
            return None
        return self.page("error.html", 403, reason="Open the address with the token that roundtrip-lab serve printed.")

    def page(self, name: str, status: int = 200, **values: object) -> HTMLResponse:
        """A page from its template."""
        return HTMLResponse(self.pages.get_template(name).render(**values), status)

    def style(self, _: Request) -> Response:
        """The style sheet."""
        text = self.pages.loader.get_source(self.pages, "style.css")[0]
        return Response(text, media_type="text/css")

    def overview(self, request: Request) -> HTMLResponse:
        """Trends by build with the regressions marked, and the fleet's distribution."""
        series = request.query_params.get("series") or None
        filters = queries.Filters(series=series)
        with self.lock:
            builds = queries.percentiles(self.engine, filters=filters)
            regressions = queries.regressions(self.engine, filters=filters)
            worst = queries.worst_devices(self.engine, filters, SHOWN)
            outliers = queries.outliers(self.engine, filters=filters)
        worse = regressions[regressions["verdict"] == "worse"]
        marked = {(row.series, row.new) for row in worse.itertuples()}
        return self.page(
            "overview.html",
            series=series,
            trends=trends(builds, marked),
            regressions=table(worse),
            worst=table(worst),
            outliers=table(outliers),
        )

    def device(self, request: Request) -> HTMLResponse:
        """One device, and its runs."""
        name = request.query_params.get("name", "")
        filters = queries.Filters(devices=(name,))
        rows = self.engine.series
        kept = rows.filter(rows.device == name).select("run_id", "source", "date", "build", "series", "calls", "missed",
                                                       "p50_ns", "p99_ns", "max_ns").order_by(["date", "series"])  # fmt: skip
        with self.lock:
            builds = queries.percentiles(self.engine, filters=filters)
            runs = self.engine.run(kept.limit(5000))
        if runs.empty:
            raise LabError(f"the data set has no device {inert(name)!r}")
        sources = list(dict.fromkeys(zip(runs["run_id"], runs["source"], runs["date"], runs["build"], strict=True)))
        reports = [(*run, self.folder(run[1]) is not None) for run in sources[-500:]]
        return self.page("device.html", device=inert(name), trends=trends(builds, set()), runs=reports)

    def folder(self, source: str) -> Path | None:
        """The run directory of this name, if it lies in the folder of runs."""
        if self.runs is None or not source or "/" in source or source in (".", "..") or "\0" in source:
            return None
        path = self.runs / source
        return path if path.is_dir() and not path.is_symlink() and (path / "run.json").is_file() else None

    def report(self, request: Request) -> HTMLResponse:
        """The HTML report of one run, made by the binary."""
        rows = self.engine.series
        run = request.query_params.get("run", "")
        with self.lock:
            found = self.engine.run(rows.filter(rows.run_id == run).select("source").limit(1))
        folder = None if found.empty else self.folder(found["source"][0])
        if folder is None:
            raise LabError("this run's directory is not here; name its parent with --runs")
        with tempfile.TemporaryDirectory() as made:
            to = Path(made) / "report.html"
            command = [self.roundtrip, "report", str(folder.resolve()), "-o", str(to)]
            try:
                done = subprocess.run(command, capture_output=True, timeout=REPORT_S, stdin=subprocess.DEVNULL)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise LabError(f"cannot make the report: {error}") from error
            if done.returncode != 0 or not to.is_file():
                said = done.stderr.decode(errors="replace").strip().splitlines() or ["it said nothing"]
                raise LabError(f"roundtrip report failed: {inert(said[-1])}")
            return HTMLResponse(to.read_bytes(), headers={"Content-Security-Policy": REPORT_POLICY})


def same(given: str, token: str) -> bool:
    """Compares in a time that tells nothing."""
    return hmac.compare_digest(given.encode(), token.encode())


def table(answer: pd.DataFrame) -> dict:
    """An answer for a template: its headers, its rows, and which columns hold numbers."""
    headers, rows = tables.readable(answer.head(SHOWN))
    numbers = [tables.numeric(answer[name]) for name in answer.columns]
    devices = list(answer["device"].head(SHOWN)) if "device" in answer.columns else [None] * len(rows)
    return {
        "headers": headers,
        "rows": list(zip(devices, rows, strict=True)),
        "numbers": numbers,
        "device": list(answer.columns).index("device") if "device" in answer.columns else -1,
        "left_out": max(0, len(answer) - SHOWN),
    }


def trends(builds: pd.DataFrame, worse: set) -> list[dict]:
    """For each series its builds in order, each with bars from 0 to the largest p99."""
    found = []
    builds = builds.dropna(subset=["p50_ns", "p90_ns", "p99_ns", "max_ns"])
    for series, rows in builds.groupby("series", sort=False):
        rows = rows.sort_values("build", key=lambda column: column.map(natural))
        top = max(1, int(rows["p99_ns"].max()))
        lines = [
            {
                "build": inert(row.build),
                "worse": (series, row.build) in worse,
                "calls": row.calls,
                "figures": [f"{value / 1000:.1f}" for value in (row.p50_ns, row.p90_ns, row.p99_ns, row.max_ns)],
                "missed": "-" if pd.isna(row.missed_share) else f"{row.missed_share * 100:.3g} %",
                "bars": [round(100 * value / top, 2) for value in (row.p50_ns, row.p90_ns, row.p99_ns)],
            }
            for row in rows.itertuples()
        ]
        found.append({"series": inert(series), "lines": lines, "top": f"{top / 1000:.1f}"})
    return found


def natural(text: str) -> list:
    """Orders build-9 before build-10."""
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"([0-9]+)", text)]
