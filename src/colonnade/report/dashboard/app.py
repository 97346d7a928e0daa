"""The dashboard's pages: GET only, bound to loopback, behind a token, under a strict content-security policy.

It cannot spend budget: it opens ledgers and logs for reading only, and no route changes anything. Templates escape every
string.
"""

import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from colonnade.errors import BadInput
from colonnade.report.dashboard.views import bars_over_time, coordinator_view, party_view, segments

try:
    from fastapi import FastAPI, HTTPException, Request, Response
    from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse
    from fastapi.staticfiles import StaticFiles
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
except ImportError:
    raise BadInput(
        "The dashboard needs the extra colonnade[dashboard].", remedy="pip install 'colonnade[dashboard]'"
    ) from None

__all__ = ["COOKIE", "HEADERS", "Sources", "dashboard"]

HERE = Path(__file__).parent
COOKIE = "colonnade_token"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; sandbox"
)
"""The policy for reports. A report is one file with inline styles; it runs no script and loads nothing."""

Next = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Sources:
    """The files that the dashboard reads.

    Parameters
    ----------
    ledgers
        The ledger file of each party.
    logs
        The log of each party that has one.
    coordinator
        The coordinator's log, if the coordinator runs on this machine.
    reports
        A folder of privacy reports.
    """

    ledgers: Mapping[str, Path] = field(default_factory=dict)
    logs: Mapping[str, Path] = field(default_factory=dict)
    coordinator: Path | None = None
    reports: Path | None = None


def dashboard(sources: Sources, token: str) -> FastAPI:
    """Return the application.

    Parameters
    ----------
    sources
        The files that it shows.
    token
        The token that opens the pages. It is compared in constant time.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    pages = Environment(loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined)

    def page(template: str, **values: Any) -> HTMLResponse:
        shown = {"parties": list(sources.ledgers), "coordinator": sources.coordinator is not None}
        return HTMLResponse(pages.get_template(template).render(**shown, **values))

    @app.middleware("http")
    async def admit(request: Request, proceed: Next) -> Response:
        answer = _refusal(request, token) or await proceed(request)
        for name, value in HEADERS.items():
            answer.headers.setdefault(name, value)
        return answer

    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")

    @app.get("/favicon.ico")
    def icon() -> Response:
        return Response(status_code=204)

    @app.get("/")
    def home() -> HTMLResponse:
        views = {name: party_view(path, sources.logs.get(name)) for name, path in sources.ledgers.items()}
        return page("home.html", title="Colonnade", here="", views=views)

    def party_values(name: str) -> dict[str, Any]:
        if name not in sources.ledgers:
            raise HTTPException(404)
        view = party_view(sources.ledgers[name], sources.logs.get(name))
        bars = {"bar": segments(view.studies, view.cap), "over_time": bars_over_time(view.lines, view.cap)}
        return {"view": view, "name": name, **bars}

    @app.get("/party/{name}")
    def party(name: str) -> HTMLResponse:
        return page("party.html", title=name, here=name, **party_values(name))

    @app.get("/party/{name}/live")
    def party_live(name: str) -> HTMLResponse:
        return page("party_live.html", **party_values(name))

    def coordinator_values() -> dict[str, Any]:
        if sources.coordinator is None:
            raise HTTPException(404)
        return {"view": coordinator_view(sources.coordinator, sources.reports)}

    @app.get("/coordinator")
    def coordinator() -> HTMLResponse:
        return page("coordinator.html", title="Coordinator", here="coordinator", **coordinator_values())

    @app.get("/coordinator/live")
    def coordinator_live() -> HTMLResponse:
        return page("coordinator_live.html", **coordinator_values())

    @app.get("/report/{name}")
    def report(name: str) -> FileResponse:
        if sources.reports is None or name not in {path.name for path in sources.reports.glob("*.html")}:
            raise HTTPException(404)
        return FileResponse(sources.reports / name, headers={"Content-Security-Policy": REPORT_POLICY})

    return app


def _refusal(request: Request, token: str) -> Response | None:
    """Return a refusal before any page is looked up: of another method, of another host name, or without the token."""
    if request.method not in ("GET", "HEAD"):
        return Response(status_code=405, headers={"Allow": "GET, HEAD"})
    if urlsplit(f"//{request.headers.get('host', '')}").hostname not in LOOPBACK:
        return Response(status_code=421)  # another site's name that resolves to this machine
    given = request.query_params.get("token", "")
    if given and _same(given, token):
        answer = RedirectResponse(request.url.path, status_code=303)
        answer.set_cookie(COOKIE, token, httponly=True, samesite="strict")
        return answer
    if not _same(request.cookies.get(COOKIE, ""), token):
        return HTMLResponse("<h1>Token required</h1><p>Open the address that the command printed.</p>", status_code=401)
    return None


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())
