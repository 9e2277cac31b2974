"""The traits of FlashInfer releases against their recorded signatures."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy.load import read_pack
from policy.pack import Pack
from tests.conformance import flashinfer_api, read_rows, scorer_of
from tests.shared import shared_path

SAMPLE = Path(__file__).parent / "conformance_sample" / "flashinfer_api.json"


@pytest.fixture(scope="module")
def pack() -> Pack:
    return read_pack()


def test_the_sample_agrees(pack: Pack) -> None:
    rows = read_rows(SAMPLE)
    assert scorer_of(rows[0]) is not None
    total, agreements, disagreements = flashinfer_api.compare(pack, rows)
    assert (total, agreements) == (60, 60), disagreements


def test_every_recorded_release_agrees(pack: Pack) -> None:
    path = shared_path("conformance/flashinfer_api.json")
    if path is None:
        pytest.skip("the shared conformance data is not there: 29 releases not compared")
    total, agreements, disagreements = flashinfer_api.compare(pack, read_rows(path))
    assert total == 290
    assert agreements == total, disagreements


def test_a_wrong_signature_is_seen(pack: Pack) -> None:
    (content,) = read_rows(SAMPLE)
    swapped = {"0.6.10": content["0.6.10.post1"]}
    disagreements = flashinfer_api.compare(pack, [swapped])[2]
    assert {text.split(": ")[1].split(" ")[0] for text in disagreements} == {"takes_group", "scope_authority"}


@pytest.mark.parametrize(
    ("release", "trait", "value"),
    [
        ("0.6.16", "python_3_12_only", True),
        ("0.6.16.post3", "python_3_12_only", True),
        ("0.6.16.post4", "python_3_12_only", False),
        ("0.7.1", "version_check", "raises"),
        ("0.7.2.post1", "version_check", "warns"),
    ],
)
def test_traits_without_a_signature(pack: Pack, release: str, trait: str, value: object) -> None:
    assert flashinfer_api.answer(pack, release, trait) == value
