"""The dashboard's pages: GET only, bound to loopback, behind a token, under a strict content-security policy.

It cannot spend budget: it opens ledgers and logs for reading only, and no route changes anything. Templates escape every
string.
"""

import hmac
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from colonnade.errors import BadInput, ColonnadeError, LedgerCorrupt
from colonnade.party.ledger.decisions import RefusedStudies, RefusedStudy
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.ledger.rows import Entry
from colonnade.party.ledger.words import LedgerNarrator, Provenance, RowInWords, analysts_beside, plans_of
from colonnade.party.policy import Permission, Policy
from colonnade.privacy.accounting import total
from colonnade.runtime.event_log import Event, read_events
from colonnade.secure.keys import PublicIdentity
from colonnade.transport.kit import WARNING_DAYS, Certificate, Kit, read_known

LEDGER_ALERT = "A ledger failed its check, or a peer's ledger has gone back to an earlier state"
ALERTS = {
    "block-refused": "A piece of a message was refused",
    "papers-refused": "A federation file was refused",
    "refused-to-run": "The party stopped: its papers, its ledger or its table is not in order",
    "message-refused": "A message was refused before it reached the guard",
    "guard-away": "The guard did not answer the relay",
    "certificate-ends": "A certificate ends soon; renew it",
    "certificate-refused": "A certificate is not in order, and nothing connects with it",
}
RECENT = 50
NEARLY_SPENT = 0.9
FEW_REFUSALS = 5
"""Fewer refusals than this in a day are not called rising."""

PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7f6f00", "#666666")
"""Okabe and Ito's colours, distinct for people with any common colour vision. Yellow is darkened: it is too pale on white."""

MOST_BARS = 40


@dataclass(frozen=True)
class ReleaseLine:
    """One release: its time, what it was, what it added to the total, the total after it, and who asked for it."""

    when: str
    label: str
    study: str
    added: float
    total: float
    private: bool
    row: int = 0
    asked: str = ""
    purpose: str = ""
    columns: Sequence[str] = ()
    readers: str = ""


@dataclass(frozen=True)
class CertificateLine:
    """A certificate for the network: whose, until when in words, and whether to do something about it."""

    owner: str
    words: str
    alarm: bool

    @classmethod
    def of(cls, owner: str, found: Certificate) -> "CertificateLine":
        """Describe a certificate as it stands now."""
        now = time.time()
        return cls(owner, found.words(now), found.days_left(now) < WARNING_DAYS)


@dataclass(frozen=True)
class PartyView:
    """Everything that the page of a party shows."""

    party: str
    test: bool = False
    cap: float = 0.0
    delta: float = 0.0
    spent: float = 0.0
    remaining: float = 0.0
    lines: Sequence[ReleaseLine] = ()
    has_log: bool = False
    refusals: Sequence[Event] = ()
    """Lines of the log."""
    refused: Sequence[str] = ()
    """Studies that were refused, in words, the latest first."""
    waiting: Sequence[str] = ()
    """Studies that wait for the owner's approval, in words, the latest first."""
    alarms: Sequence[str] = ()
    """What the ledger and the refusals give reason to look at."""
    alerts: Sequence[tuple[str, Event]] = ()
    trouble: str = ""
    certificates: Sequence[CertificateLine] = ()

    @property
    def studies(self) -> dict[str, float]:
        """What each study spent, in the order of its first release."""
        shares: dict[str, float] = {}
        for line in self.lines:
            shares[line.study] = shares.get(line.study, 0.0) + line.added
        return shares

    @property
    def exact_studies(self) -> set[str]:
        """The studies with a release that is not differentially private."""
        return {line.study for line in self.lines if not line.private}

    @property
    def exact(self) -> int:
        """How many releases are not differentially private."""
        return sum(not line.private for line in self.lines)


@dataclass(frozen=True)
class _Refused:
    """What a party has refused lately, and what of it waits."""

    studies: Sequence[RefusedStudy] = ()
    waiting: Sequence[RefusedStudy] = ()
    damage: str = ""

    def times(self, log: Sequence[Event]) -> list[datetime]:
        """Return when something was refused: by the log, or without one by the studies that were kept."""
        found = [_time(event.time) for event in log if event.event == "refused"]
        return [one for one in found if one is not None] or [study.time for study in self.studies]


def party_view(ledger: Path, log: Path | None = None, *, clock: Callable[[], float] = time.time) -> PartyView:
    """Read a party's ledger, the studies that it refused, and its log. A ledger that fails its check has no figures."""
    events = [] if log is None else read_events(log)
    view = {
        "has_log": log is not None,
        "refusals": [event for event in events if event.event == "refused"][-RECENT:],
        "alerts": [(words, event) for event in events if (words := _alert(event))][-RECENT:],
        "certificates": _certificates(ledger.parent / "kit"),
    }
    try:
        with SqliteLedger.open(ledger) as opened:
            entries, budget = opened.entries(), opened.budget
            party, test, remaining = opened.party, opened.test, opened.remaining()
            narrator = LedgerNarrator(party, budget.delta, plans_of(opened, entries), _analysts(ledger))
            refused = _refused(ledger, opened, entries)
    except ColonnadeError as error:
        return PartyView(ledger.stem, trouble=f"{error.code}: {error.message}", **view)  # type: ignore[arg-type]
    rows = {entry.sequence: narrator.row(entry) for entry in entries}
    lines = _lines(entries, rows, budget.delta)
    spent, cap = lines[-1].total if lines else 0.0, budget.nano / 1e9
    now = datetime.fromtimestamp(clock(), tz=UTC)
    return PartyView(
        party,
        test,
        cap,
        budget.delta,
        spent,
        remaining,
        lines,
        refused=[narrator.refusal(one) for one in reversed(refused.studies)][:RECENT],
        waiting=[narrator.refusal(one) for one in refused.waiting],
        alarms=_alarms(lines, list(rows.values()), spent / cap, refused, refused.times(events), now),
        **view,  # type: ignore[arg-type]
    )


def _analysts(ledger: Path) -> dict[str, PublicIdentity] | None:
    try:
        found = analysts_beside(ledger)
    except ColonnadeError:
        return None
    return None if found is None else dict(found)


def _refused(ledger: Path, opened: SqliteLedger, entries: Sequence[Entry]) -> _Refused:
    try:
        studies = RefusedStudies(ledger).read()
    except ColonnadeError as error:
        return _Refused(damage=error.message)
    judged = Permission(Policy(), opened.party, opened.budget.delta, entries, opened.now())
    return _Refused(studies, judged.waiting(studies, opened.current_version() or 0))


def _alarms(
    lines: Sequence[ReleaseLine],
    rows: Sequence[RowInWords],
    share: float,
    refused: _Refused,
    refusals: Sequence[datetime],
    now: datetime,
) -> list[str]:
    """Say what gives reason to look: exact releases, a budget nearly spent, forged names, studies that wait, more refusals."""
    found = []
    exact = sum(not line.private for line in lines)
    if exact:
        found.append(
            f"{exact} release{'s are' if exact > 1 else ' is'} not differentially private (ε = ∞). "
            f"The budget does not count {'them' if exact > 1 else 'it'}."
        )
    if share >= NEARLY_SPENT:
        found.append(f"{100 * share:.0f} % of the budget is spent.")
    if any(row.requester is not None and row.requester.provenance is Provenance.FORGED for row in rows):
        found.append("A request in the ledger has a signature that is not valid.")
    if refused.waiting:
        count = len(refused.waiting)
        found.append(f"{count} {'studies wait' if count > 1 else 'study waits'} for your approval.")
    if refused.damage:
        found.append(refused.damage)
    return [*found, *_rising(refusals, now)]


def _rising(refusals: Sequence[datetime], now: datetime) -> list[str]:
    """Say that refusals are rising: at least five in a day, and more than twice the daily mean of the week before."""
    day, week = now - timedelta(days=1), now - timedelta(days=8)
    today = sum(one > day for one in refusals)
    before = sum(week < one <= day for one in refusals) / 7
    if today < FEW_REFUSALS or today <= 2 * before:
        return []
    return [f"Refusals are rising: {today} in the last 24 hours, {before:.1f} per day in the week before."]


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _certificates(kit: Path) -> list[CertificateLine]:
    """Return the certificates of a served party's kit, which stands beside its ledger; none of a simulated party."""
    try:
        return [CertificateLine.of(file, found) for file, found in Kit(kit).certificates().items()]
    except ColonnadeError:
        return []


def _alert(event: Event) -> str:
    """Return the alert of an event, or an empty text."""
    if event.event == "refused" and event.fields.get("code") == LedgerCorrupt.code:
        return LEDGER_ALERT
    return ALERTS.get(event.event, "")


def _lines(entries: Sequence[Entry], rows: Mapping[int, RowInWords], delta: float) -> list[ReleaseLine]:
    lines: list[ReleaseLine] = []
    losses = []
    before = 0.0
    for entry in entries:
        if entry.kind not in ("debit", "reserve", "forfeit", "nonprivate"):
            continue
        if entry.loss is not None:
            losses.append(entry.loss)
        after, row = total(losses).epsilon(delta) if losses else 0.0, rows[entry.sequence]
        lines.append(
            ReleaseLine(
                f"{entry.when:%Y-%m-%d %H:%M}",
                row.study,
                row.title or row.what,
                after - before,
                after,
                entry.loss is not None,
                row.sequence,
                "" if row.requester is None else row.requester.words(),
                row.purpose,
                row.columns,
                row.readers,
            )
        )
        before = after
    return lines


# Budget as stacked bars, drawn on the server: no script computes figures ---------------------------------------


@dataclass(frozen=True)
class Segment:
    """A part of a bar, in percent of the cap."""

    name: str
    start: float
    width: float
    colour: str
    epsilon: float


@dataclass(frozen=True)
class StackedBar:
    """The stacked total after one release."""

    when: str
    segments: Sequence[Segment]


def segments(studies: Mapping[str, float], cap: float) -> list[Segment]:
    """Return one segment per study, laid end to end."""
    start, result = 0.0, []
    for number, (name, epsilon) in enumerate(studies.items()):
        width = 100.0 * max(epsilon, 0.0) / cap if cap > 0 else 0.0
        result.append(Segment(name, start, width, PALETTE[number % len(PALETTE)], epsilon))
        start += width
    return result


def bars_over_time(lines: Sequence[ReleaseLine], cap: float) -> list[StackedBar]:
    """Return the stacked bar after each release. Of many releases, evenly chosen ones and the last."""
    stack: dict[str, float] = dict.fromkeys((line.study for line in lines), 0.0)  # fixes the colours
    bars = []
    for line in lines:
        stack[line.study] += line.added
        bars.append(StackedBar(line.when, segments(stack, cap)))
    step = max(1, -(-len(bars) // MOST_BARS))
    return bars[::-1][::step][::-1]


STATUS = {"study-started": "running", "resumed": "running", "study-finished": "finished", "study-failed": "failed"}


@dataclass(frozen=True)
class Site:
    """A party or node, and whether it is connected."""

    name: str
    up: bool
    since: str


@dataclass(frozen=True)
class StudyLine:
    """A study: its status, and its steps in the order in which they were reached."""

    name: str
    status: str
    started: str
    steps: Sequence[tuple[str, str]]
    sent: int
    received: int


@dataclass(frozen=True)
class CoordinatorView:
    """Everything that the coordinator's page shows."""

    sites: Sequence[Site]
    studies: Sequence[StudyLine]
    reports: Sequence[str]
    certificates: Sequence[CertificateLine] = ()


def coordinator_view(log: Path, reports: Path | None = None) -> CoordinatorView:
    """Read the coordinator's log and the certificates that it has seen, and list the reports in a folder."""
    known = read_known(log.parent / "certificates.status")
    certificates = [CertificateLine.of(site, one) for site, one in sorted(known.items())]
    events = read_events(log)
    found = [] if reports is None or not reports.is_dir() else sorted(path.name for path in reports.glob("*.html"))
    return CoordinatorView(_sites(events), _studies(events), found, certificates)


def _sites(events: Sequence[Event]) -> list[Site]:
    latest: dict[str, Site] = {}
    for event in events:
        name = event.fields.get("party")
        if event.event in ("connected", "disconnected") and name is not None:
            latest[str(name)] = Site(str(name), event.event == "connected", event.time)
    return [latest[name] for name in sorted(latest)]


def _studies(events: Sequence[Event]) -> list[StudyLine]:
    grouped: dict[str, list[Event]] = {}
    for event in events:
        if "study" in event.fields:
            grouped.setdefault(str(event.fields["study"]), []).append(event)
    return [_study(name, some) for name, some in reversed(grouped.items())]


def _study(name: str, events: Sequence[Event]) -> StudyLine:
    statuses = [STATUS[event.event] for event in events if event.event in STATUS]
    steps = [(str(event.fields.get("step", "")), event.time) for event in events if event.event == "study-step"]
    return StudyLine(
        name,
        statuses[-1] if statuses else "running",
        events[0].time,
        steps,
        _largest(events, "bytes_out"),
        _largest(events, "bytes_in"),
    )


def _largest(events: Sequence[Event], name: str) -> int:
    """Return the largest byte count. The counts of a study only grow, so it is the last one."""
    return max((value for event in events if isinstance(value := event.fields.get(name), int)), default=0)


try:
    from fastapi import FastAPI, HTTPException, Request, Response
    from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse
    from fastapi.staticfiles import StaticFiles
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
except ImportError:
    raise BadInput(
        "The dashboard needs the extra colonnade[dashboard].", remedy="pip install 'colonnade[dashboard]'"
    ) from None

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
