"""Who asked for a study, and what for: kept with it by every party, signed by an analyst, and no part of the request."""

import msgspec
import pytest

import colonnade as cn
from colonnade.errors import BadInput, LoosePermissions, ProtocolError
from colonnade.plan import About, checked_analyst_name
from colonnade.protocol import messages
from colonnade.protocol.messages import Ask, Propose, Refused
from colonnade.secure.keys import Identity
from tests.federations import as_if_agreed, federation
from tests.party.test_gate import a_plan, gate_of, guards

ANALYST = cn.Analyst("analyst@telco", Identity.from_seed(b"a" * 32))
OTHER = cn.Analyst("analyst@bank", Identity.from_seed(b"b" * 32))


def entries(f: cn.Federation, party: str = "bank"):
    return [entry for entry in gate_of(f, party).ledger.entries() if entry.plan is not None]


def test_a_study_is_kept_with_its_plan_title_purpose_and_signed_requester():
    with federation(analyst=ANALYST) as f:
        model = cn.PCA(2, epsilon=1.0, delta=1e-5).fit(f.asking(title="Churn", purpose="why people leave"))
        hashed = messages.digest(model.plan_)
        for party in f.parties:
            for entry in entries(f, party):
                assert (entry.plan, entry.about.title) == (hashed, "Churn")
                assert (entry.about.purpose, entry.about.requester) == ("why people leave", "analyst@telco")
                assert entry.about.signer(hashed) == ANALYST.public
        cn.PCA(2, epsilon=0.5, delta=1e-5).fit(f)  # `asking` returned another federation
        assert entries(f)[-1].about.title == "PCA"


def _signed(plan, words: About, analyst: cn.Analyst) -> About:
    return words.signed(messages.digest(plan), analyst.identity)


@pytest.mark.parametrize("kind", ["proposed", "asked"])
def test_words_that_the_named_analyst_has_not_signed_for_this_plan_are_refused_and_cost_nothing(kind):
    with federation(analyst=ANALYST) as f:
        plan = a_plan(f)
        words = About(title="Churn", requester=ANALYST.name)
        good = _signed(plan, words, ANALYST)
        another_plan = _signed(a_plan(f, epsilon=0.25), words, ANALYST)
        forged = [
            another_plan,
            _signed(plan, words, OTHER),
            _signed(plan, About(title="Churn", requester=OTHER.name), OTHER),
            msgspec.structs.replace(good, title="Something else"),
            msgspec.structs.replace(good, purpose="Something else"),
            msgspec.structs.replace(good, requester=""),
            msgspec.structs.replace(good, signature=good.signature[:-1]),
            msgspec.structs.replace(good, signature=b"s"),
        ]
        if kind == "asked":  # or else it would be refused for want of everybody's yes, whatever is signed
            as_if_agreed(guards(f)["bank"], plan, good)
        for about in forged:
            request = (
                Propose(plan=plan, about=about) if kind == "proposed" else Ask(plan=plan, step="reports", about=about)
            )
            reply = messages.decode_reply(guards(f)["bank"].handle(messages.encode(request)))
            assert isinstance(reply, Refused)
            assert (reply.code, reply.spent) == (ProtocolError.code, None)
        assert entries(f) == []
        as_if_agreed(guards(f)["bank"], plan, good)
        accepted = guards(f)["bank"].handle(messages.encode(Ask(plan=plan, step="reports", about=good)))
        assert not isinstance(messages.decode_reply(accepted), Refused)


def test_an_analysts_key_is_for_one_user_alone_and_its_name_a_plain_word(tmp_path):
    path = tmp_path / "analyst.key"
    made = cn.Analyst.create(path, name="ana.lyst+1@telco")
    assert cn.Analyst.read(path).public == made.public
    assert b"key" not in repr(made).encode()
    with pytest.raises(BadInput, match="exists"):
        cn.Analyst.create(path, name="ana")
    path.chmod(0o644)
    with pytest.raises(LoosePermissions):
        cn.Analyst.read(path)
    (tmp_path / "none").write_text("name = 3")
    (tmp_path / "none").chmod(0o600)
    with pytest.raises(BadInput, match="not an analyst's key"):
        cn.Analyst.read(tmp_path / "none")
    for name in ("", "two words", "=1+1", "x" * 101, "a\x00b", 3):
        with pytest.raises(BadInput):
            checked_analyst_name(name)
