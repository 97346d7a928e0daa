"""The sections of a report: who could see what, how it was perturbed, what crossed, what it cost, what it rests on."""

from collections.abc import Callable, Sequence
from math import isinf
from typing import Any

from colonnade.errors import ColonnadeError
from colonnade.privacy.loss import Loss
from colonnade.privacy.price import NANO
from colonnade.protocol import codec
from colonnade.report.markup import Html, figure, join, table, tag
from colonnade.report.mechanisms import noises, proof_of
from colonnade.steps.kind import Admission, NoiseWords
from colonnade.steps.registry import kind_of

__all__ = ["OF_A_STUDY", "is_private", "ledgers", "proofs", "versions"]

KINDS = {
    "accounted": "public: what a ledger has spent, line by line",
    "agreed": "public: agreement to the plan's hash, and the price of every step by the party's own computation",
    "described": "public: schema, alignment, number of people",
    "greeted": "public: a signed ephemeral key for one run of one plan",
    "not-kept": "public: no earlier answer is kept",
    "opened": "a share of an already-noised value, and each party's own noised part",
    "posted": "letters between members, sealed: ciphertext that the coordinator relays and cannot read",
    "refused": "public: a refusal, its code and what to do",
    "released": "releases: differentially private, unless this report says otherwise above",
    "settled": "public: a key between parties is settled; nothing of it",
}
MOST_LINES = 60
CODING = (
    "Values outside their public bounds were clipped; a missing number became the midpoint of its bounds, a missing or unknown "
    "level no level at all. The bounds, the levels and the number of people are public."
)


def is_private(study: Any) -> bool:
    """Return whether ε is finite for a person: towards the coordinator, and towards a party to which scores were opened."""
    opened = [step for step in study.plan_.steps if kind_of(step).admission == Admission.PREDICTION]
    told = {str(step.parameters["recipient"]) for step in opened}
    return not any(isinf(study.privacy_.epsilon(observer=one, unit="person")) for one in ("coordinator", *sorted(told)))


def asked(study: Any) -> Html:
    """What was asked: parameters, plan hash, people, parties."""
    plan, privacy = study.plan_, study.privacy_
    parameters = ", ".join(f"{name}={value!r}" for name, value in study.get_params(deep=False).items())
    epsilon, delta = privacy.epsilon(unit=plan.unit), privacy.delta(unit=plan.unit)
    promised = (
        "nothing: not differentially private" if isinf(epsilon) else f"ε = {epsilon:.6g}, δ = {delta:.3g} a {plan.unit}"
    )
    rows = [
        ("estimator", f"{type(study).__name__}({parameters})"),
        ("promised towards the coordinator", promised),
        ("neighbouring tables", RELATIONS.get(plan.relation, plan.relation)),
        ("people", f"{plan.people:,} (public)"),
        ("parties", ", ".join(plan.parties)),
        ("columns", ", ".join(study.schema_)),
        ("compute nodes", ", ".join(plan.compute_nodes) or "none: every party answers for itself"),
        ("threshold t, collusion c", f"t = {plan.threshold}, c = {privacy.collusion}"),
        (
            "local differential privacy",
            "yes: every person's record is randomised on its own" if privacy.local else "no",
        ),
        ("draw", str(plan.repeat)),
        ("plan hash (SHA-256)", tag("code", codec.digest(plan).hex())),
        ("federation (SHA-256 of names and schemas)", tag("code", plan.federation)),
        ("alignment of rows", tag("code", plan.alignment)),
    ]
    return join([tag("h3", "What was asked"), table(["", ""], rows)])


RELATIONS = {
    "zero-out": "zero-out: one unit's record replaced by nothing; the number of people is public",
    "event": "event: one value changes by at most the stated step; steps are hidden, whole values are not",
}


def observers(study: Any) -> Html:
    """Who could see what: ε and δ for every observer and unit."""
    rows = [
        (row["observer"], row["unit"], row["epsilon"], row["delta"], row["epsilon_if_replaced"])
        for row in study.privacy_.table().to_dict("records")
    ]
    note = (
        "“ε if replaced” is the same guarantee for a record replaced by another one instead of by nothing, where it is known. "
        "Names joined by + pool what they see."
    )
    return join(
        [
            tag("h3", "Who could see what"),
            table(["observer", "unit", "ε", "δ", "ε if replaced"], rows),
            tag("p", note, klass="soft"),
        ]
    )


def assumptions(study: Any) -> Html:
    """What the guarantee rests on."""
    words = [*study.privacy_.assumptions, CODING]
    notes = [f"{name}: {note}" for name, note in study.privacy_.notes.items()]
    return join([tag("h3", "What it rests on"), tag("ul", *(tag("li", one) for one in (*words, *notes)))])


def perturbed(study: Any) -> Html:
    """How every release was perturbed: sensitivity, scale, and where the proof is."""
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
        for noise in noises(study.plan_, study.schema_)
    ]
    columns = ["release", "by", "mechanism", "sensitivity", "scale", "price", ""]
    return join([tag("h3", "How it was perturbed"), table(columns, rows)])


def crossed(study: Any) -> Html:
    """What the coordinator received, by kind, and who signed."""
    transcript = study.transcript_
    rows = [(kind, size, KINDS.get(kind, "")) for kind, size in sorted(transcript.received.items())]
    directions = [
        (member, transcript.bytes_to.get(member, 0), transcript.bytes_from.get(member, 0))
        for member in dict.fromkeys((*transcript.bytes_to, *transcript.bytes_from))
    ]
    signed = [(member, tag("code", signature)) for member, signature in transcript.signatures.items()]
    words = (
        "Ed25519 signatures under the plan's hash, the federation's and the run's, made before any share left:"
        if signed
        else "No member talked to another in this study (or it was answered from what was kept): no run was signed. Every party "
        "answered under the plan's hash above."
    )
    return join(
        [
            tag("h3", "What the coordinator received"),
            tag("p", f"{transcript.rounds} rounds, {transcript.messages} messages, {transcript.wall_time:.2f} s."),
            table(["kind", "bytes", "what it is"], rows),
            table(["member", "bytes to", "bytes from"], directions),
            tag("p", words),
            table(["member", "signature"], signed) if signed else "",
        ]
    )


OF_A_STUDY: tuple[Callable[[Any], Html], ...] = (asked, observers, perturbed, crossed, assumptions)
"""In the order of the page."""


def ledgers(studies: Sequence[Any], federation: Any) -> Html:
    """Every party's ledger, line by line, and what remains; without a federation, what the studies themselves cost."""
    heading = tag("h2", "Ledgers")
    accounts = _accounts(federation)
    if accounts is None:
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
        note = "The federation was not at hand when this was written: this is what the studies cost by their own statements."
        return join([heading, tag("p", note, klass="soft"), table(["study", "party", "ε", "δ"], rows)])
    budget = federation.budget()
    person = federation.budget(unit="person")
    remaining = [
        (party, row["spent"], row["remaining"], row["epsilon"], row["delta"], int(row["nonprivate"]))
        for party, row in budget.iterrows()
    ]
    columns = ["party", "spent ε", "remaining ε", "cap ε", "cap δ", "non-private releases"]
    total = f"All parties' releases together, about one person: ε = {figure(person['spent'])} at δ = {figure(person['delta'])}."
    return join([heading, table(columns, remaining), tag("p", total), *(_lines(one) for one in accounts.values())])


def _accounts(federation: Any) -> Any:
    try:
        return None if federation is None else federation.accounts()
    except (ColonnadeError, RuntimeError):  # closed, or out of reach
        return None


def _lines(account: Any) -> Html:
    shown = account.entries[-MOST_LINES:]
    rows = [
        (
            entry.label,
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


def versions(found: Sequence[tuple[str, str]]) -> Html:
    """Which software made the releases."""
    words = ", ".join(f"{name} {version}" for name, version in found)
    return join([tag("h2", "Software"), tag("p", words)])


def proofs(studies: Sequence[Any]) -> Html:
    """The mechanisms' own documentation: guarantee, neighbours, adversary, numerics, proof and tests."""
    used: dict[type, NoiseWords] = {}
    for study in studies:
        for noise in noises(study.plan_, study.schema_):
            if noise.proof is not None:
                used.setdefault(noise.proof, noise)
    parts = [tag("h2", "Proofs")]
    for kind in used:
        parts.append(tag("h3", f"{kind.__module__}.{kind.__qualname__}", id=_anchor(kind)))
        parts.append(tag("pre", proof_of(kind)))
    return join(parts)


def _anchor(kind: type) -> str:
    return f"proof-{kind.__qualname__}".lower()
