"""The privacy report: one self-contained HTML page that a data-protection officer can read, print, sign and keep.

The first page is for somebody who reads one page and signs for one party: who learns what, when the guarantee fails,
and a verdict per party. Then come the details: each study, the ledgers, the promise in full, software and proofs. Everything in
it is public or was released: plan, statement, transcript, ledgers' lines and fitted attributes. No table is read.

There is no template language. What is not `Html` by type is text, and text is escaped: a report shows strings that parties
supplied (names, columns, levels, titles), and there is no way to put a plain string into a page unescaped. Plots are added where
matplotlib is installed (``colonnade[plots]``), and the report says so where it is not.

Every law of a plan is shown with its sensitivity, its scale and its proof, rebuilt from public facts exactly as a party does.
A step and its law are functions of plan, schema and price alone, so a reader arrives at the same figures as the party that
drew the noise. The proof is the law's own documentation, copied into the report.

Scorecards, and results in notebooks, are shown with the same elements.
"""

import base64
import html
import inspect
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from math import isinf, isnan
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from colonnade._version import __version__
from colonnade.coordinator.driver import NoJournal, losses_in, plan_accounts
from colonnade.coordinator.federation import Federation
from colonnade.errors import BadInput, ColonnadeError
from colonnade.estimation.expected_errors import ExpectedError
from colonnade.estimators.answers import Delivery, Evaluation, Preview
from colonnade.estimators.study import Study
from colonnade.plan import Plan
from colonnade.privacy.accounting import NANO, Loss, total
from colonnade.protocol import messages
from colonnade.protocol.messages import Accounted
from colonnade.report import plots
from colonnade.result import COORDINATOR, PrivacyStatement
from colonnade.runtime.private_files import put_in_place
from colonnade.schema import Column, ColumnName, Schema
from colonnade.steps.kind import Admission, NoiseWords, kind_of, whole_steps

_VOID = frozenset({"meta", "br", "img", "hr"})
_NAME = re.compile(r"[a-z][a-z0-9-]*")


class Html(str):
    """Markup that is already safe. Made by `tag`, `table`, `join` and, for constants of this package alone, `raw`."""

    __slots__ = ()


def raw(constant: str) -> Html:
    """Mark a constant of this package as markup; never for anything that a party, a user or a file supplied."""
    return Html(constant)


def text(value: object) -> Html:
    """Return a value as escaped text; control characters become a visible mark."""
    if isinstance(value, Html):
        return value
    plain = "".join(one if one.isprintable() or one in "\n\t" else "\ufffd" for one in str(value))
    return Html(html.escape(plain, quote=True))


def join(parts: Iterable[object]) -> Html:
    """Return parts side by side, escaped unless they are markup."""
    return Html("".join(text(part) for part in parts))


def tag(name: str, /, *children: object, **attributes: str | None) -> Html:
    """Return an element; children and attributes are escaped unless they are markup.

    Examples
    --------
    >>> tag("p", "a < b", klass="note")
    '<p class="note">a &lt; b</p>'
    """
    if not _NAME.fullmatch(name):
        raise ValueError("not the name of an element")
    given = {key.replace("klass", "class").replace("_", "-"): value for key, value in attributes.items()}
    opening = "".join(f' {key}="{text(value)}"' for key, value in given.items() if value is not None)
    return Html(f"<{name}{opening}>" if name in _VOID else f"<{name}{opening}>{join(children)}</{name}>")


def table(columns: Sequence[object], rows: Iterable[Sequence[object]], *, caption: str | None = None) -> Html:
    """Return a table with numbers to the right, in a frame that scrolls rather than overflows."""
    rows = [list(row) for row in rows]
    numbers = [bool(rows) and all(_is_number(row[place]) for row in rows) for place in range(len(columns))]
    heads = [tag("th", name, scope="col", klass=_aligned(right)) for name, right in zip(columns, numbers, strict=True)]
    head = tag("thead", tag("tr", *heads)) if any(columns) else Html("")
    body = tag("tbody", *(tag("tr", *map(_cell, row)) for row in rows))
    title = tag("caption", caption) if caption else Html("")
    return tag("div", tag("table", title, head, body), klass="wide")


def _cell(value: object) -> Html:
    shown = figure(value) if isinstance(value, int | float) else value
    return tag("td", shown, klass=_aligned(_is_number(value)))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _aligned(right: bool) -> str | None:
    return "number" if right else None


def figure(value: float) -> str:
    """Return a number as people read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isnan(value):
        return "–"
    if isinf(value):
        return "∞" if value > 0 else "−∞"
    if isinstance(value, int) or (abs(value) < 1e15 and value == int(value)):
        return f"{int(value):,}"
    return f"{value:,.1f}" if 100 <= abs(value) < 1e15 else f"{value:.4g}"


PROMISE = (
    "Whatever the coordinator does, crashes, repeats or forges, and whatever up to c other parties see and pool with it (c is in "
    "the signed plan; c ≤ t and c ≤ data parties − 1; default 1), what leaves party P about any one person is (ε, "
    "δ)-differentially private with ε and δ no larger than P's own ledger shows. P's ledger never shows less than was released "
    "and never exceeds P's cap. Where the coordinator is itself a compute node it is assumed to collude with no party. Where a "
    "guarantee rests on a key that the parties share (sketches, secret batches), c = 0. Every statement prints its c and its "
    "assumptions. Peers are semi-honest in their inputs: a party that shares unclipped values can amplify another's row past the "
    "noise (a large multiple of one row's indicator opens that row); the code and every statement say so. Not covered: an "
    "observer of timing on P's own host; more than t colluding compute nodes (for shared steps); denial of service. What is "
    "weaker has to be admitted by name in each party's policy: event-level moments; and coresets, predictions to one party, and "
    "intersection alignment (each party learns which of its own ids the others have; a union tells one party how many are in "
    "common), which are not differentially private."
)
"""The promise of docs/explanation/promise.md, word for word. A test compares the two."""

READING = (
    "ε and δ say how much one person's record can change what an observer sees: for any two tables that differ in one unit, the "
    "odds of anything that this observer sees change by a factor of at most e^ε, except with probability δ. The smaller, the "
    "better hidden. The unit “person” is one person's whole record at all parties; “party” is one person's record at one party. "
    "∞ means that nothing is guaranteed."
)

EXCEPT = "This promise is that of the private methods. The releases marked as not private are outside it."

NONPRIVATE = (
    "NOT PRIVATE. Exact values left the parties in this study. No noise protects anybody in them, no budget measures them, and "
    "nothing in this report bounds what the coordinator could learn from them about one person. Every party allowed this by name "
    "in its own policy."
)


STYLE = """
:root { --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --field: #f6f8fa; --mark: #0072b2; --alarm: #a40e26; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif; color: var(--ink); background: #fff;
  max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .25rem; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .5rem; padding-top: .8rem; border-top: 2px solid var(--line); }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }
p, ul, dl { margin: .4rem 0 .8rem; }
a { color: var(--mark); }
.soft { color: var(--soft); }
.receipt { background: var(--field); border-left: 4px solid var(--mark); padding: .6rem .8rem; }
.receipt p { margin: .2rem 0; }
div.receipt { margin: .6rem 0; }
.bad { color: var(--alarm); }
.alarm { background: #fff0f0; border: 3px solid var(--alarm); color: var(--alarm); padding: .8rem 1rem; font-weight: 700; }
.promise { background: var(--field); padding: .8rem 1rem; border-radius: 4px; }
.wide { overflow-x: auto; margin: .6rem 0 1rem; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; }
caption { text-align: left; color: var(--soft); padding: .2rem 0; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem .35rem 0; border-bottom: 1px solid var(--line);
  overflow-wrap: break-word; }
th { font-weight: 600; white-space: nowrap; }
th.number { text-align: right; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
figure { margin: 1rem 0; }
figure img { width: 100%; max-width: 52rem; height: auto; display: block; }
figcaption { color: var(--soft); font-size: .88rem; }
code { font: .85em/1.4 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
pre { font: .8rem/1.45 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; background: var(--field);
  padding: .8rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.sign { display: flex; flex-wrap: wrap; gap: 2rem; margin-top: 2.5rem; }
.sign div { flex: 1 1 14rem; border-top: 1px solid var(--ink); padding-top: .3rem; color: var(--soft); font-size: .88rem; }
@media print {
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  .summary { break-after: page; } h2 { break-after: avoid; } figure, tr, .alarm, .receipt { break-inside: avoid; }
  .wide { overflow: visible; } a { color: inherit; text-decoration: none; }
  @page { margin: 18mm 16mm; }
}
"""


Reported = Study | Delivery | Evaluation
"""What a report is written of: fitted estimators, deliveries of scores, and evaluations."""

HOLDS, ON_TRUST, NOT_PRIVATE = "Holds", "Holds on trust", "NOT PRIVATE"


def is_private(study: Reported) -> bool:
    """Return whether ε per person is finite, towards the coordinator and towards every party that scores were opened to."""
    opened = [step for step in study.plan_.steps if kind_of(step).admission == Admission.PREDICTION]
    recipients = {str(step.parameters["recipient"]) for step in opened}
    return not any(
        isinf(study.privacy_.epsilon(observer=one, unit="person")) for one in ("coordinator", *sorted(recipients))
    )


@dataclass(frozen=True)
class Verdict:
    """What one party's officer has to know first.

    Parameters
    ----------
    party
        Whose verdict it is.
    word
        ``"Holds"``, ``"Holds on trust"`` (in the coordinator, or in the holders of a key) or ``"NOT PRIVATE"``.
    reason
        Why, in a sentence.
    """

    party: str
    word: str
    reason: str


def verdicts(studies: Sequence[Reported]) -> list[Verdict]:
    """Return a verdict for every party that took part in one of the studies."""
    parties = dict.fromkeys(party for study in studies for party in study.plan_.parties)
    return [_verdict(party, [study for study in studies if party in study.plan_.parties]) for party in parties]


def _verdict(party: str, studies: Sequence[Reported]) -> Verdict:
    readers = dict.fromkeys(one for study in studies for one in _exact_readers(study, party))
    if readers:
        who = " and ".join("the coordinator" if one == COORDINATOR else one for one in readers)
        return Verdict(
            party,
            NOT_PRIVATE,
            f"Exact values from {party} went to {who}. Its policy allowed this by name, and no noise hides them.",
        )
    if any(_rests_on_the_coordinator(study, party) for study in studies):
        return Verdict(
            party, ON_TRUST, "Noise hides every person, as long as the coordinator shows what it saw to no other party."
        )
    covered = min(study.privacy_.collusion for study in studies)
    pooled = "alone" if covered == 0 else f"also together with {covered} other {'party' if covered == 1 else 'parties'}"
    return Verdict(party, HOLDS, f"Noise hides every person from the coordinator, {pooled}.")


def _exact_readers(study: Reported, party: str) -> list[str]:
    """Return who learned exact values that this party's columns entered."""
    readers = [one for one in study.privacy_.trust.exposed if one != party]
    return [
        one
        for one in readers
        if any(
            party in opening.scope and opening.loss_to(frozenset({one})) is None for opening in study.privacy_.openings
        )
    ]


def _rests_on_the_coordinator(study: Reported, party: str) -> bool:
    others = [one for one in study.privacy_.parties if one != party]
    return any(isinf(study.privacy_.epsilon(observer=(COORDINATOR, one), unit="party", party=party)) for one in others)


def summary_section(
    studies: Sequence[Reported], federation: Federation | None, left_out: Mapping[str, str] | None = None
) -> Html:
    """Return the summary: the trust picture of each study, a verdict per party, and what is left out of the report and why."""
    parts = [tag("h2", "Summary")]
    if any(not is_private(study) for study in studies):
        parts.append(tag("p", NONPRIVATE, klass="alarm", role="alert"))
    for number, study in enumerate(studies, start=1):
        title = f"{type(study).__name__}, method {study.plan_.method!r}"
        heading = f"Study {number}: {title}" if len(studies) > 1 else title
        lines = [tag("p", line) for line in study.privacy_.trust.lines]
        parts.append(tag("div", tag("p", tag("strong", heading)), *lines, klass="receipt"))
    parts += [tag("h3", "Verdict per party"), *_verdict_cards(studies, federation)]
    if left_out:
        reasons = [tag("li", tag("strong", title), f": {reason}") for title, reason in left_out.items()]
        parts += [tag("h3", "Not in this report"), tag("ul", *reasons)]
    parts.append(tag("p", READING, klass="soft"))
    return tag("section", *parts, klass="summary")


def _verdict_cards(studies: Sequence[Reported], federation: Federation | None) -> list[Html]:
    """Return one card per party: the verdict, why, and what its ledger was charged, by its own account."""
    accounts = _accounts(federation) or {}
    cards = []
    for verdict in verdicts(studies):
        bad = verdict.word == NOT_PRIVATE
        title = tag("p", tag("strong", f"{verdict.party}: {verdict.word}", klass="bad" if bad else None))
        charged = "What its ledger was charged could not be read when this was written."
        account = accounts.get(verdict.party)
        if federation is not None and account is not None:
            spent, cap = Loss.from_bytes(account.spent).epsilon(account.cap_delta), account.cap_nano / NANO
            charged = (
                f"Its ledger was charged {_charged(verdict.party, studies, federation)} for these studies, and "
                f"ε = {figure(spent)} in all, of its cap of ε = {figure(cap)} (δ = {figure(account.cap_delta)})."
            )
            uncovered = sum(entry.loss is None for entry in account.entries)
            if uncovered:
                few = "One release was" if uncovered == 1 else f"{uncovered} releases were"
                charged += f" {few} not differentially private. The budget does not count {'it' if uncovered == 1 else 'them'}."
        cards.append(tag("div", title, tag("p", verdict.reason), tag("p", charged, klass="soft"), klass="receipt"))
    return cards


def _charged(party: str, studies: Sequence[Reported], federation: Federation) -> str:
    """Return what one party's ledger was ever charged for these studies, composed."""
    plans = {messages.digest(study.plan_): study.plan_ for study in studies if party in study.plan_.parties}
    auditor, losses, delta = federation._driver.journal or NoJournal(), list[Loss](), 0.0
    for plan in plans.values():  # one release may serve several studies
        account = plan_accounts(plan, {party: 0}, federation._driver.transport, auditor)[party]
        if not isinstance(account, Accounted):
            return "an unknown ε"
        losses, delta = [*losses, *losses_in(account)], account.cap_delta
    return f"ε = {figure(total(losses).epsilon(delta))}"


def noise_words_of(plan: Plan, schema: Mapping[str, Column]) -> list[NoiseWords]:
    """Return one entry per joint step, and one per local step of a party, in the plan's order.

    Parameters
    ----------
    plan
        The study.
    schema
        ``"party.column"`` to its public description, for the columns that enter.
    """
    schemas = {party: Schema(own) for party in plan.parties if (own := _own(schema, party))}  # a helper has no column
    return [words for whole in whole_steps(plan, schemas) for words in whole.kind.noise_words(whole)]


def _own(schema: Mapping[str, Column], party: str) -> dict[str, Column]:
    named = {ColumnName.of(name): column for name, column in schema.items()}
    return {name.column: column for name, column in named.items() if name.party == party}


def proof_of(kind: type) -> str:
    """Return the documentation of a mechanism: its guarantee, its adversary, the proof, and its tests."""
    own = _without_usage(inspect.getdoc(kind) or "")
    module = inspect.getmodule(kind)
    around = "" if "\nPrivacy\n" in own or module is None else (inspect.getdoc(module) or "") + "\n\n"
    return f"{around}{own}".strip() or f"See {kind.__module__}.{kind.__qualname__}."


def _without_usage(documentation: str) -> str:
    """Leave out the sections of a numpy docstring that say how to call a class."""
    parts = re.split(r"\n(?=[A-Z][A-Za-z ]+\n-{3,}\n)", documentation)
    return "\n".join(part for part in parts if not part.startswith(("Parameters\n", "Examples\n", "Attributes\n")))


MESSAGE_KINDS = {
    "accounted": "public: what a ledger has spent, line by line",
    "agreed": "public: agreement to the plan's hash, and the price of every step by the party's own computation",
    "described": "public: schema, alignment, number of people",
    "greeted": "public: a signed ephemeral key for one run of one plan",
    "not-kept": "public: no earlier answer is kept",
    "opened": "a share of an already-noised value, and each party's own noised part",
    "posted": "sealed messages between members: ciphertext that the coordinator relays and cannot read",
    "refused": "public: a refusal, its code and what to do",
    "released": "releases: differentially private, unless this report says otherwise above",
    "settled": "public: two parties agreed on a key; nothing of the key",
}
MOST_LINES = 60
CODING = (
    "Numbers outside their public bounds were clipped. A missing value, and one that is no declared level, counts as what its "
    "column declares: a public number or date, a level of its own, or no level, which leaves the person out of counts. "
    "A table with values that its schema has no rule for is refused by its owner's own software. The bounds, the levels, these "
    "rules and the number of people are public."
)


def request_section(study: Reported) -> Html:
    """Return what was asked for: parameters, plan hash, people and parties."""
    plan, privacy = study.plan_, study.privacy_
    parameters = ", ".join(f"{name}={value!r}" for name, value in study.get_params(deep=False).items())
    epsilon, delta = privacy.epsilon(unit=plan.unit), privacy.delta(unit=plan.unit)
    promised = (
        "nothing: not differentially private"
        if isinf(epsilon)
        else f"ε = {epsilon:.6g}, δ = {delta:.3g} per {plan.unit}"
    )
    rows = [
        ("estimator", f"{type(study).__name__}({parameters})"),
        ("promised towards the coordinator", promised),
        ("neighbouring tables", RELATIONS.get(plan.relation, plan.relation)),
        ("people", f"{plan.people:,} (public)"),
        ("parties", ", ".join(plan.parties)),
        ("columns", ", ".join(plan.columns_in_words())),
        ("compute nodes", ", ".join(plan.compute_nodes) or "none: every party answers for itself"),
        ("may pool what they see", privacy.pooling),
        (
            "local differential privacy",
            "yes: every person's record is randomised on its own" if privacy.local else "no",
        ),
        ("draw", str(plan.repeat)),
        ("plan hash (SHA-256)", tag("code", messages.digest(plan).hex())),
        ("federation (SHA-256 of names and schemas)", tag("code", plan.federation)),
        ("alignment of rows", tag("code", plan.alignment)),
    ]
    return join([tag("h3", "What was asked"), table(["", ""], rows)])


RELATIONS = {
    "zero-out": "zero-out: one unit's record replaced by nothing; the number of people is public",
    "event": "event: one value changes by at most the stated step; steps are hidden, whole values are not",
}


OBSERVED = {
    "observer": "observer",
    "unit": "unit",
    "epsilon": "ε",
    "delta": "δ",
    "mu": "μ",
    "epsilon_if_replaced": "ε if replaced",
}


def _observers(privacy: PrivacyStatement, **more: str) -> Html:
    """Return a table of ε and δ for every observer and unit."""
    shown = {**OBSERVED, **more}
    return table(list(shown.values()), privacy.table()[list(shown)].astype(object).to_numpy().tolist())


def observers_section(study: Reported) -> Html:
    """Return who could see what: ε and δ for every observer and unit."""
    note = (
        "“ε if replaced” is the same guarantee for a record replaced by another one instead of by nothing, where it is known. "
        "“μ” says the same as Gaussian differential privacy: a record is told apart no more easily than one draw of N(0, 1) from "
        "one of N(μ, 1). Names joined by + pool what they see."
    )
    parts = [tag("h3", "Who could see what"), _observers(study.privacy_), tag("p", note, klass="soft")]
    return join([*parts, _trade_off(study.privacy_)])


def _trade_off(privacy: PrivacyStatement) -> Html:
    """Return the whole guarantee as a curve: which false alarms and which misses the best test of the coordinator has."""
    if isinf(privacy.epsilon()):
        return Html("")
    shares = [step / 40 for step in range(41)]
    curve = " ".join(f"{20 + 160 * one:.1f},{180 - 160 * privacy.misses(one):.1f}" for one in shares)
    drawing = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 215" width="260" font-family="sans-serif" font-size="9">'
        '<rect x="20" y="20" width="160" height="160" fill="none" stroke="#999"/>'
        '<line x1="20" y1="20" x2="180" y2="180" stroke="#999" stroke-dasharray="3"/>'
        f'<polyline points="{curve}" fill="none" stroke="#1f5fa8" stroke-width="2"/>'
        '<text x="60" y="196">false alarms, 0 to 1</text>'
        '<text x="-140" y="13" transform="rotate(-90)">misses, 0 to 1</text></svg>'
    )
    image = tag(
        "img",
        src=f"data:image/svg+xml;base64,{base64.b64encode(drawing.encode()).decode()}",
        alt="The trade-off between false alarms and misses of the best test for one person's record",
    )
    words = (
        "The whole guarantee: no test by the coordinator for one person's record gets below the blue line. The dashed line is "
        f"guessing. With 5 % false alarms it misses at least {100 * privacy.misses(0.05):.1f} % of the people."
    )
    return tag("figure", image, tag("figcaption", words))


def assumptions_section(study: Reported) -> Html:
    """Return what the guarantee rests on."""
    rules = [f"{name}: {rule}." for name, column in study.schema_.items() if (rule := column.missing_rule)]
    words = [*study.privacy_.assumptions, " ".join([CODING, *rules])]
    notes = [f"{name}: {note}" for name, note in study.privacy_.notes.items()]
    return join([tag("h3", "What it rests on"), tag("ul", *(tag("li", one) for one in (*words, *notes)))])


def noise_section(study: Reported) -> Html:
    """Return how every release was perturbed: sensitivity, scale, and a link to the proof."""
    rows = [
        (
            f"{noise.step} ({noise.kind})",
            ", ".join(noise.parties),
            noise.mechanism if noise.private else tag("strong", f"NO NOISE: {noise.mechanism}"),
            noise.sensitivity or "see the proof",
            noise.scale or "see the proof",
            noise.price or "no price",
            tag("a", "proof", href=f"#{_anchor(noise.proof)}") if noise.proof else "",
        )
        for noise in noise_words_of(study.plan_, study.schema_)
    ]
    columns = ["release", "by", "mechanism", "sensitivity", "scale", "price", ""]
    return join([tag("h3", "How it was perturbed"), table(columns, rows)])


def messages_section(study: Reported) -> Html:
    """Return what the coordinator received, by kind, and who signed."""
    transcript = study.transcript_
    rows = [(kind, size, MESSAGE_KINDS.get(kind, "")) for kind, size in sorted(transcript.received.items())]
    counted = {"bytes to": transcript.bytes_to, "bytes from": transcript.bytes_from}
    if transcript.direct:
        counted["directly to members"] = transcript.direct
    directions = [
        (member, *(bytes_of.get(member, 0) for bytes_of in counted.values()))
        for member in dict.fromkeys((*transcript.bytes_to, *transcript.bytes_from))
    ]
    signed = [(member, tag("code", signature)) for member, signature in transcript.signatures.items()]
    words = (
        "Ed25519 signatures under the plan's hash, the federation's and the run's, made before any share left:"
        if signed
        else "No run was signed: no member talked to another in this study, or the answers of an earlier run were used. Every "
        "party answered under the plan's hash above."
    )
    return join(
        [
            tag("h3", "What the coordinator received"),
            tag("p", f"{transcript.rounds} rounds, {transcript.messages} messages, {transcript.wall_time:.2f} s."),
            table(["kind", "bytes", "what it is"], rows),
            table(["member", *counted], directions),
            tag("p", words),
            table(["member", "signature"], signed) if signed else "",
        ]
    )


STUDY_SECTIONS: tuple[Callable[[Reported], Html], ...] = (
    request_section,
    observers_section,
    noise_section,
    messages_section,
    assumptions_section,
)
"""The sections about one study, in the order of the page."""


def ledgers_section(studies: Sequence[Reported], federation: Federation | None) -> Html:
    """Return every party's ledger, line by line, and what remains. Without a federation, return what the studies cost."""
    heading = tag("h2", "Ledgers")
    accounts = _accounts(federation, in_words=True)
    if federation is None or accounts is None:
        rows = [
            (
                type(study).__name__,
                party,
                study.privacy_.epsilon(unit="party", party=party),
                study.privacy_.delta(unit="party"),
            )
            for study in studies
            for party in study.plan_.parties
        ]
        note = "The federation's ledgers could not be read when this was written. This is what the studies' statements say."
        return join([heading, tag("p", note, klass="soft"), table(["study", "party", "ε", "δ"], rows)])
    budget = federation.budget()
    person = federation.budget(unit="person")
    remaining = [
        (party, row["spent"], row["remaining"], row["epsilon"], row["delta"], int(row["nonprivate"]))
        for party, row in budget.iterrows()
    ]
    columns = ["party", "spent ε", "remaining ε", "cap ε", "cap δ", "non-private releases"]
    total = f"All parties' releases together, about one person: ε = {figure(person['spent'])} at δ = {figure(person['delta'])}."
    return join(
        [heading, table(columns, remaining), tag("p", total), *(_account_lines(one) for one in accounts.values())]
    )


def _accounts(federation: Federation | None, *, in_words: bool = False) -> dict[str, Accounted] | None:
    try:
        return None if federation is None else federation._driver.accounts(in_words=in_words)
    except (ColonnadeError, RuntimeError):  # closed, or out of reach
        return None


def _account_lines(account: Accounted) -> Html:
    shown = account.entries[-MOST_LINES:]
    rows = [
        (
            entry.words or entry.label,
            tag("strong", "not private")
            if entry.loss is None
            else Loss.from_bytes(entry.loss).epsilon(account.cap_delta),
            "opened jointly" if entry.joint else "",
        )
        for entry in shown
    ]
    left = len(account.entries) - len(shown)
    more = f" ({left} earlier lines are in the ledger itself)" if left else ""
    caption = f"Ledger of {account.party}, row {account.sequence}, cap ε = {figure(account.cap_nano / NANO)}{more}"
    return join([tag("h3", account.party), table(["release", "ε on its own", ""], rows, caption=caption)])


def proofs_section(studies: Sequence[Reported]) -> Html:
    """Return the documentation of every mechanism that was used: guarantee, neighbours, adversary, numerics and tests."""
    used = [noise.proof for study in studies for noise in noise_words_of(study.plan_, study.schema_)]
    parts = [tag("h2", "Proofs")]
    for kind in dict.fromkeys(proof for proof in used if proof is not None):
        parts.append(tag("h3", f"{kind.__module__}.{kind.__qualname__}", id=_anchor(kind)))
        parts.append(tag("pre", proof_of(kind)))
    return join(parts)


def _anchor(kind: type) -> str:
    return f"proof-{kind.__qualname__}".lower()


LARGEST_PAGE_BYTES = 1_000_000
Letters = Literal["drawn", "written", "none"]
"""How the letters of charts are put on the page: drawn as paths, written in the reader's font, or no charts at all."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""What the file allows a browser: to show it. No script runs, nothing is fetched, nothing is sent."""


def write(
    studies: Sequence[Reported],
    path: str | Path,
    *,
    federation: Federation | None = None,
    title: str | None = None,
    left_out: Mapping[str, str] | None = None,
) -> Path:
    """Write a report of one or more fitted studies. An existing file is replaced at once or not at all.

    Parameters
    ----------
    studies
        Fitted estimators.
    path
        The file to write.
    federation
        The federation whose ledgers are shown as they are now. Without one, the report shows what the studies cost.
    title
        The title of the page.
    left_out
        Studies that the report is not about, by title, and why: one that failed, was not run, or would let exact values leave
        again. The summary names them.
    """
    target = Path(path)
    content = b""
    choices: tuple[Letters, ...] = ("drawn", "written", "none")  # for many studies smaller charts, and at last none
    for letters in choices:
        content = page(studies, federation=federation, title=title, left_out=left_out, letters=letters).encode()
        if len(content) <= LARGEST_PAGE_BYTES:
            break
    try:
        put_in_place(target, content)
    except OSError:
        raise BadInput("The report cannot be written.", remedy="Check the folder and its permissions.") from None
    return target


def page(
    studies: Sequence[Reported],
    *,
    federation: Federation | None = None,
    title: str | None = None,
    left_out: Mapping[str, str] | None = None,
    letters: Letters = "drawn",
    now: Callable[[], float] = time.time,
) -> Html:
    """Return the report as one HTML document."""
    if not studies or any(not hasattr(study, "privacy_") for study in studies):
        raise BadInput("Only a fitted study has a report.", remedy="Call fit(...) first.")
    name = title or ("Privacy report: " + ", ".join(dict.fromkeys(type(study).__name__ for study in studies)))
    body = tag(
        "body",
        _introduction(name, now),
        summary_section(studies, federation, left_out),
        *_study_sections(studies, letters=letters),
        ledgers_section(studies, federation),
        _promise_section(studies),
        tag("h2", "Software"),
        tag("p", ", ".join(_versions())),
        proofs_section(studies),
        tag("div", tag("div", "Name, role"), tag("div", "Date"), tag("div", "Signature"), klass="sign"),
    )
    return _document(name, body)


def _document(title: str, body: Html) -> Html:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", raw(STYLE)),
    )
    return join([raw("<!doctype html>\n"), tag("html", head, body, lang="en"), raw("\n")])


def _introduction(name: str, now: Callable[[], float]) -> Html:
    written = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(now()))
    return join([tag("h1", name), tag("p", f"Written {written} by colonnade {__version__}.", klass="soft")])


def _promise_section(studies: Sequence[Reported]) -> Html:
    parts = [tag("h2", "The promise"), tag("p", PROMISE, klass="promise")]
    if any(not is_private(study) for study in studies):
        parts.append(tag("p", EXCEPT, klass="alarm"))
    return join(parts)


def receipt_section(study: Reported) -> Html:
    """Return the receipt, line by line."""
    return tag("div", *(tag("p", line) for line in study.receipt_.splitlines()), klass="receipt")


def _study_sections(studies: Sequence[Reported], *, letters: Letters) -> list[Html]:
    parts: list[Html] = []
    for number, study in enumerate(studies, start=1):
        title = f"{type(study).__name__}, method {study.plan_.method!r}"
        parts.append(tag("h2", f"Study {number}: {title}" if len(studies) > 1 else f"The study: {title}"))
        parts += [receipt_section(study), *(section(study) for section in STUDY_SECTIONS)]
        if letters != "none":
            parts.append(_chart(study, drawn=letters == "drawn"))
    return parts


def _chart(study: Reported, *, drawn: bool) -> Html:
    if plots.chart_of(study) is None:
        return Html("")
    heading = tag("h3", "Chart of the result")
    try:
        figure = plots.plot(study)
    except ColonnadeError as error:
        return join([heading, tag("p", f"{error.message} {error.remedy}", klass="soft")])
    data = base64.b64encode(plots.svg(figure, drawn=drawn)).decode()
    image = tag("img", src=f"data:image/svg+xml;base64,{data}", alt=f"Chart of the fitted {type(study).__name__}")
    whole = study.table() if isinstance(study, Study) else pd.DataFrame()
    covered = "for the population" if "p" in whole else "the privacy noise alone"
    caption = tag("figcaption", f"Released values only; intervals are {covered}.")
    return join([heading, tag("figure", image, caption), *(_rows(whole) if "note" in whole.attrs else [])])


def _versions() -> list[str]:
    packages = ("numpy", "scipy", "pandas", "cryptography", "msgspec", "dp-accounting")
    return [f"colonnade {__version__}", *(f"{package} {metadata.version(package)}" for package in packages)]


COLUMNS = ("bin", "points", "people", "events", "event rate", "weight of evidence")


def card_html(card: Any) -> Html:
    """Return the page of a fitted scorecard."""
    title = f"Scorecard: {card.target}"
    values, rows = card.information_value_, card.binning_table_
    sections = [_column(name, values[name], rows[rows["column"] == name]) for name in card.importance_.index]
    body = tag(
        "body", tag("h1", title), *_head(card), *sections, *(tag("p", line) for line in card.receipt_.splitlines())
    )
    return _document(title, body)


def _head(card: Any) -> list[Html]:
    event = str(card.classes_[1])
    meaning = (
        f"A score is {card.base_points_:,} base points and the points of one bin per column. {card.scorecard_points:g} points "
        f"stand for odds of {card.odds:g} to 1 against {event!r}. {card.pdo:g} further points double these odds. "
        f"Rounding moves a score by at most {card.rounding_:g} points."
    )
    errors = "Counts carry noise for privacy; ± is one standard error of it. What noise hides is left out."
    return [tag("p", meaning), tag("p", errors, klass="soft")]


def _column(name: str, value: float, rows: pd.DataFrame) -> Html:
    cells = [
        (
            row["bin"],
            f"{row['points']:+d}",
            f"{row['count']:,.0f} ± {row['count_stderr']:,.0f}",
            f"{row['event']:,.0f} ± {row['event_stderr']:,.0f}",
            _with_error(100 * row["event_rate"], 100 * row["event_rate_stderr"], " %"),
            _with_error(row["woe"], row["woe_stderr"]),
        )
        for row in rows.to_dict("records")
    ]
    return join([tag("h2", name), tag("p", f"Information value {value:.3f}", klass="soft"), table(COLUMNS, cells)])


def _with_error(value: float, error: float, unit: str = "") -> str:
    return "–" if pd.isna(value) else f"{value:.2f} ± {error:.2f}{unit}"


MOST_SHOWN = 20
"""How many rows of a result a notebook shows."""


def _rows(whole: pd.DataFrame) -> list[Html]:
    """Return the first rows of a result, and the note below them."""
    top = whole.head(MOST_SHOWN).reset_index().astype(object)
    more = f"The first {MOST_SHOWN} of {len(whole):,} rows; table() has all." if len(whole) > MOST_SHOWN else ""
    words = [one for one in (more, whole.attrs.get("note")) if one]
    return [table([str(name) for name in top.columns], top.to_numpy().tolist()), *(tag("p", one) for one in words)]


def study_html(fitted: Any) -> Html:
    """Return an estimator as HTML: its parameters and, once fitted, its result, its receipt and who could see what."""
    parts = [tag("code", repr(fitted))]
    if hasattr(fitted, "privacy_"):
        parts += [
            *_rows(fitted.table()),
            *(tag("p", line) for line in fitted.receipt_.splitlines()),
            tag("details", tag("summary", "Who could see what"), statement_html(fitted.privacy_)),
        ]
    return tag("div", *parts)


def statement_html(privacy: PrivacyStatement) -> Html:
    """Return a privacy statement as an HTML table, one row per observer and unit."""
    assumptions = tag("ul", *(tag("li", words) for words in (privacy.pooling, *privacy.assumptions)))
    return join([_observers(privacy, relation="neighbours"), assumptions])


def preview_html(shown: Preview) -> Html:
    """Return a preview as HTML: charges, who may pool what they see, expected errors, errors at other ε, and warnings."""
    charges = [(party, *row) for party, row in shown.table().iterrows()]
    expected = [("may pool what they see", shown.statement.pooling), *shown.expected.items()]
    expected += [(f"expected error of {error.quantity}", _span(error)) for error in shown.errors]
    if shown.traffic is not None:
        expected.append(("traffic", shown.traffic.words))
    parts = [
        tag("strong", f"{shown.title}: a preview; nothing is spent."),
        *(tag("p", line) for line in shown.statement.trust.lines),
        table(["party", "charge ε", "remaining ε", "would then remain ε"], charges),
        table(["what", "expect"], expected),
    ]
    if len(shown.others):
        rows = shown.others[["epsilon", "error"]].to_numpy().tolist()
        parts.append(table(["ε", "expected error"], rows))
    if shown.warnings:
        parts.append(tag("ul", *(tag("li", warning) for warning in shown.warnings)))
    return tag("div", *parts)


def _span(error: ExpectedError) -> str:
    if error.value is None:
        return f"unknown, because {error.unknown}"
    return f"{figure(error.value)} {error.unit}, whatever the data"
