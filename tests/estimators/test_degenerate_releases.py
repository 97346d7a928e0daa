"""Whatever the parties open becomes an answer or a typed error, and nothing is lost: asking again is free and can succeed.

Every estimator is fitted once. Then its kept releases are exchanged for nonsense on their way to the code that estimates.
"""

from collections.abc import Callable

import numpy as np
import pytest

import colonnade as cn
from colonnade.coordinator import driver
from colonnade.coordinator.protocols import newton_steps
from colonnade.coordinator.protocols.moment_releases import GramRelease
from colonnade.errors import EstimateFailed
from colonnade.estimation.newton import NewtonSearch
from colonnade.estimation.regression import Equations, OpenedScore, infer
from colonnade.estimators.additive import AdditiveModel
from colonnade.estimators.methods.moments import Newton
from colonnade.protocol import messages
from tests.estimators.test_every_estimator import CASES, NEEDS, federation, made  # noqa: F401  # the fixture too
from tests.federations import SCHEMAS, frames

HUGE = 2**61
"""As large as a number can be that is opened on shares."""
WILD = [f"wild {seed}" for seed in range(3)]
KINDS = ["zero", "singular", "huge", "negative", "indefinite", *WILD]
SLOW = {cn.SyntheticTable, cn.AdditiveClassifier, cn.Scorecard}
"""What takes a second or more to estimate: every third kind of nonsense has to do."""
NAN_MEANS_NOBODY = {cn.GroupBy: ("table_",)}
"""Where NaN is an answer: the mean of a group in which there is nobody."""


def nonsense(kind: str, opened: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Numbers of the same type and shape that no table would give."""
    size, whole = opened.size, opened.dtype.kind in "iu"
    top = float(min(HUGE, np.iinfo(opened.dtype).max)) if whole else 1e150
    low = 0.0 if opened.dtype.kind == "u" else -top
    signs = np.where(np.arange(size) % 2, low, top)
    made = {
        "zero": np.zeros(size),
        "singular": np.ones(size),
        "huge": np.full(size, top),
        "negative": np.full(size, low),
    }
    if kind in WILD:
        made[kind] = wild(opened.ravel().astype(np.float64), top, rng)
    numbers = np.clip(made.get(kind, signs), low, top)
    # `top` as a float may be one more than the largest integer of the type
    exact = [min(int(one), np.iinfo(opened.dtype).max) for one in numbers] if whole else numbers
    return np.array(exact, dtype=opened.dtype).reshape(opened.shape)


def wild(opened: np.ndarray, top: float, rng: np.random.Generator) -> np.ndarray:
    """The numbers as they are, other ones of any size, one of them gone wrong, all far too large or small, or negated."""
    far = np.exp(rng.uniform(0, np.log(top), len(opened))) * rng.choice([-1, 1], len(opened))
    one = np.where(np.arange(len(opened)) == rng.integers(max(len(opened), 1)), far, opened)
    scaled = np.round(opened * np.exp(rng.uniform(-20, 20)))
    return [opened, opened, far, one, scaled, -opened][rng.integers(6)]


EXCHANGE, UNFRAMED = driver._exchange, newton_steps._unframed


def opened_as(kind: str, patch: pytest.MonkeyPatch) -> list[int]:
    """From here on everything that parties have kept arrives as nonsense; the list says how many numbers did."""
    rng, numbers = np.random.default_rng(sum(kind.encode())), []

    def changed(array: np.ndarray) -> np.ndarray:
        numbers.append(array.size)
        return nonsense(kind, array, rng)

    def released(reply: messages.Reply) -> messages.Reply:
        if not isinstance(reply, messages.Released):
            return reply
        values = {  # "opened" has several rounds in one, which `_unframed` takes apart first
            name: value if name == "opened" else messages.pack(changed(messages.unpack(value)))
            for name, value in reply.values.items()
        }
        return messages.Released(reply.party, reply.step, values, reply.mechanism, reply.loss)

    patch.setattr(driver, "_exchange", lambda *given: {one: released(got) for one, got in EXCHANGE(*given).items()})
    patch.setattr(newton_steps, "_unframed", lambda kept: [changed(one) for one in UNFRAMED(kept)])
    return numbers


def answer(ask: Callable[[], object]) -> object:
    """What a call came to: an answer, or an error."""
    with np.errstate(all="ignore"):
        try:
            return ask()
        except Exception as error:
            return error


def check(found: object) -> None:
    """An answer has numbers; an error says that the releases are kept."""
    if isinstance(found, EstimateFailed):
        assert "costs nothing" in found.remedy
        assert found.__cause__ is not None
    elif not isinstance(found, cn.ColonnadeError):
        assert not isinstance(found, Exception), repr(found)
        for name in found.learned:
            value = getattr(found, name, None)
            if "stderr" not in name and name not in NAN_MEANS_NOBODY.get(type(found), ()):
                numbers = np.asarray(value) if isinstance(value, np.ndarray | float) else np.zeros(1)
                assert numbers.dtype.kind != "f" or not np.isnan(numbers).any(), name
        found.table()


@pytest.mark.every(8)
@pytest.mark.filterwarnings("ignore")  # of overflows, and of scikit-learn: the answer is what counts here
@pytest.mark.parametrize(
    ("kind", "method"),
    [pytest.param(kind, method, marks=NEEDS.get(kind, ())) for kind, method in CASES],
    ids=[f"{kind.__name__}-{method.name}" for kind, method in CASES],
)
def test_nonsense_is_an_answer_or_a_typed_error_and_asking_again_is_free(
    kind,
    method,
    federation,  # noqa: F811
    monkeypatch,
):
    honest = made(kind, method).fit(federation)
    for nonsensical in KINDS[::3] if kind in SLOW else KINDS:
        before = federation.budget()["spent"]
        with monkeypatch.context() as patch:
            numbers = opened_as(nonsensical, patch)
            check(answer(lambda: made(kind, method).fit(federation)))
            assert sum(numbers) > 0
        # What a first stage opens decides what a second one asks for: after other numbers it asks for something else.
        assert issubclass(kind, AdditiveModel) or federation.budget()["spent"].equals(before)
    before = federation.budget()["spent"]
    assert made(kind, method).fit(federation).table().equals(honest.table())
    assert federation.budget()["spent"].equals(before)


NEWTON = {"method": "newton", "columns": ["bank.age", "telco.bill"], "epsilon": 2.0, "delta": 1e-5}


def small() -> cn.Federation:
    parties = {name: cn.Party(table, schema=SCHEMAS[name]) for name, table in frames(60).items()}
    return cn.Federation.simulate(parties, id="person_id", budget=cn.Budget(epsilon=20.0, delta=1e-4))


def broken(*_: object) -> None:
    raise np.linalg.LinAlgError("Matrix is not positive definite")


@pytest.mark.parametrize(
    ("owner", "name", "finished"),
    [(Newton, "learn", True), (NewtonSearch, "bend", False), (GramRelease, "read", False)],
    ids=["after the study", "between two steps", "before the first step"],
)
def test_a_failure_of_ours_says_what_it_cost_and_the_same_call_after_an_upgrade_is_free(owner, name, finished):
    study = cn.LogisticRegression("bank.default", **NEWTON)
    with small() as people:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, name, broken)
            first, second = (answer(lambda: study.fit(people)) for _ in range(2))
        assert isinstance(first, EstimateFailed)
        assert isinstance(first.__cause__, np.linalg.LinAlgError)
        paid = people.budget()["spent"]
        assert first.spent == pytest.approx(paid[paid > 0].to_dict())
        assert (first.findings is not None) == finished
        assert isinstance(second, EstimateFailed)
        assert second.spent is None
        study.fit(people)
        if finished:
            assert people.budget()["spent"].equals(paid)


def test_equations_whose_noise_is_known_to_different_scales_have_an_answer():
    """As after steps that went astray: of Adult with capital gains up to 99,999 the variances were 10⁹ to 10²⁴."""
    rng = np.random.default_rng(1)
    turned = rng.normal(size=(40, 40))
    information, start = turned @ turned.T, rng.normal(size=40)
    scales = 10.0 ** np.linspace(0, 16, 40)
    noise = OpenedScore(np.outer(scales, scales), np.full((40, 40), 1e-4), start)  # of rank one, but for rounding
    equations = Equations(information, information @ start, noise, np.zeros(40, dtype=bool), lambda _: 1.0)
    found = answer(lambda: infer(equations, np.eye(40)))
    assert not isinstance(found, Exception), repr(found)
    assert np.isfinite(found.estimates).all()
