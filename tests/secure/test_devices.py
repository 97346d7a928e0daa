"""Shares are multiplied on whatever there is, and the elements are the same."""

import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import BadInput, ProtocolError
from colonnade.secure import shamir
from colonnade.secure.keys import SeedStream
from colonnade.secure.residues import PRIME_SETS, Arithmetic
from colonnade.secure.shamir import Products, compute_on, gram_on_device
from tests.federations import TEST_KEY, federation

has_gpu = shamir._gpu() is not None
needs_gpu = pytest.mark.skipif(not has_gpu, reason="no NVIDIA GPU with torch and Triton on this machine")
SHAPES = [
    ([1, 1], 1),
    ([2, 5], 7),
    ([17, 16], 100),
    ([33], 513),
    ([64, 64, 2], 8192),
    ([30, 11], 45_222),
    ([130], 130_001),
]


@pytest.fixture(autouse=True)
def as_it_was():
    yield
    compute_on("auto")


class OnNumpy:
    """What a GPU would be asked: Python's own integers in numpy, and exact."""

    def __init__(self, moduli, columns):
        self.moduli = moduli
        self.modulus = int(np.prod(np.array(moduli, dtype=object)))
        self.parts = []

    def add(self, parts):
        self.parts.append(np.concatenate(parts).astype(object))
        return True

    def in_range(self):
        return all((part < self.modulus).all() for part in self.parts)

    def residues(self, first, second):
        joined = np.concatenate(self.parts, axis=1)
        whole = joined @ joined.T
        return np.array([(whole[first, second] % p).astype(np.int64) for p in self.moduli])


@pytest.fixture
def on_another_device(monkeypatch):
    made = []
    monkeypatch.setattr(shamir, "gram_on_device", lambda *args: made.append(OnNumpy(*args)) or made[-1])
    return made


@pytest.mark.parametrize("moduli", PRIME_SETS)
def test_a_device_gives_the_elements_that_the_processor_gives(moduli, on_another_device, monkeypatch):
    arithmetic = Arithmetic(moduli)
    chunk = [arithmetic.uniform(SeedStream(bytes(32), q), w * 40).reshape(w, 40) for q, w in enumerate((3, 5))]
    elsewhere = Products(arithmetic, [3, 5])
    monkeypatch.undo()
    here = Products(arithmetic, [3, 5])
    for product in (elsewhere, here):
        product.add([part[:, :15] for part in chunk])
        product.add([part[:, 15:] for part in chunk])
    assert on_another_device
    assert elsewhere.elements().tolist() == here.elements().tolist()


def test_shares_out_of_range_are_refused_before_a_product_from_a_device_is_used(on_another_device):
    arithmetic = Arithmetic(PRIME_SETS[0])
    product = Products(arithmetic, [1, 1])
    product.add([np.array([[1]], np.uint64), np.array([[arithmetic.modulus]], np.uint64)])
    with pytest.raises(ProtocolError, match="range"):
        product.elements()


@pytest.mark.full
def test_a_federation_on_another_device_releases_the_same(on_another_device, monkeypatch):
    def released():
        with federation(120, delta=1e-4, test_key=TEST_KEY) as f:
            return cn.PCA(1, epsilon=1.0, delta=1e-5).fit(f).components_

    elsewhere = released()
    assert on_another_device
    monkeypatch.undo()
    assert np.array_equal(elsewhere, released())


@pytest.mark.skipif(has_gpu, reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_refused_with_the_extra_that_it_needs():
    with pytest.raises(BadInput) as refused:
        compute_on("gpu")
    assert "colonnade[gpu]" in refused.value.remedy
    assert gram_on_device(PRIME_SETS[0], 500) is None


@needs_gpu
@pytest.mark.parametrize("moduli", PRIME_SETS)
@pytest.mark.parametrize(("widths", "rows"), SHAPES)
@pytest.mark.parametrize("edge", [False, True])
def test_a_gpu_gives_the_same_elements_bit_for_bit(moduli, widths, rows, edge):
    arithmetic = Arithmetic(moduli)
    chunk = [arithmetic.uniform(SeedStream(bytes(32), q), w * rows).reshape(w, rows) for q, w in enumerate(widths)]
    if edge:  # all digits as large as they can be
        chunk = [np.full_like(part, arithmetic.modulus // 2) for part in chunk]
    found = []
    for compute in ("cpu", "gpu"):
        compute_on(compute)
        product = Products(arithmetic, widths, within=True)
        for start in range(0, rows, 50_000):
            product.add([part[:, start : start + 50_000] for part in chunk])
        found.append(product.elements())
    assert np.array_equal(*found)
