"""Versions as one total order, and the kinds of version that need care."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.facts import Fact, ValueProblem, show
from policy.launch import Facts
from policy.pack import Breakpoints, releases_between
from policy.values import ABSENT, EVERYTHING, Interval, Ordered
from policy.versions import Version, is_known_local, is_placeholder, line_start, neighbours, parse, shown, without_local
from tests.random_packs import FACTS, PackData, built, launched

RELEASE = Fact("packages.lib", "version", optional=True)
#: Ascending, no two equal.
ASCENDING = [
    "0.5",
    "0.6.0.dev20250101",
    "0.6.0a1",
    "0.6.0rc1",
    "0.6.0",
    "0.6.0.post1.dev0",
    "0.6.0.post1",
    "0.6.10.dev0",
    "0.6.10rc1.dev3",
    "0.6.10rc1",
    "0.6.10",
    "0.6.10.post1",
    "0.6.11",
    "0.10",
    "1!0.1",
]

versions = st.builds(
    lambda release, pre, post, dev, local: release + pre + post + dev + local,
    st.sampled_from(["0.6", "0.6.0", "0.6.9", "0.6.10", "0.10", "1.0"]),
    st.sampled_from(["", "a1", "rc2"]),
    st.sampled_from(["", "", ".post1"]),
    st.sampled_from(["", "", ".dev3", ".dev0"]),
    st.sampled_from(["", "+cu130", "+gdeadbeef"]),
)


def test_one_order() -> None:
    for (one, low), (two, high) in product(enumerate(ASCENDING), repeat=2):
        assert (Version(low) < Version(high)) == (one < two)


@given(versions, versions, versions)
def test_order_is_total(one: str, two: str, three: str) -> None:
    a, b, c = (RELEASE.value(text) for text in (one, two, three))
    assert (a < b) + (a == b) + (a > b) == 1
    assert not (a <= b <= c) or a <= c


@given(versions, versions)
def test_at_least_and_below_are_complements(bound: str, other: str) -> None:
    version = RELEASE.value(other)
    at_least, below = RELEASE.range(f">={bound}"), RELEASE.range(f"<{bound}")
    assert (version in at_least) != (version in below)
    assert at_least | below == Ordered.of((EVERYTHING,))
    assert not at_least & below
    # what a range excludes, absent stays outside of
    assert ABSENT not in at_least
    assert ABSENT not in below


@given(versions)
def test_the_line_begins_at_its_first_development_build(text: str) -> None:
    version = without_local(Version(text))
    start = line_start(version)
    assert start <= version
    assert start in RELEASE.range(f">={text}")
    assert start not in RELEASE.range(f"<{text}")
    assert shown(start) in (str(version), str(version).removesuffix(".dev0"))


@pytest.mark.parametrize("early", ["0.6.10.dev0", "0.6.10.dev20260101", "0.6.10a1", "0.6.10rc1", "0.6.10", "0.6.10.post1", "0.6.10+cu130"])
def test_pre_releases_belong_to_the_line_they_lead_to(early: str) -> None:
    assert RELEASE.value(early) in RELEASE.range(">=0.6.10")
    assert RELEASE.value(early) not in RELEASE.range("<0.6.10")


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("==0.6.11", ["0.6.11", "0.6.11+cu130"], ["0.6.11.post1", "0.6.11rc1"]),
        ("<=0.6.11", ["0.6.11", "0.6.11rc1", "0.6.10.post9"], ["0.6.11.post1"]),
        ("!=0.6.11", ["0.6.10", "0.6.11.post1"], ["0.6.11", "0.6.11+cu128"]),
    ],
)
def test_other_comparisons(text: str, inside: list[str], outside: list[str]) -> None:
    accepted = RELEASE.range(text)
    assert all(RELEASE.value(one) in accepted for one in inside)
    assert not any(RELEASE.value(one) in accepted for one in outside)


def test_bare_greater_is_refused() -> None:
    with pytest.raises(ValueProblem, match=r"post-releases are above this") as caught:
        RELEASE.range(">0.6.10")
    assert "write `>=0.6.10.post1`" in caught.value.help
    with pytest.raises(ValueProblem):
        RELEASE.values(">=0.6,>0.6.10")


@given(versions)
def test_local_parts_do_not_count(text: str) -> None:
    version = Version(text)
    assert without_local(version) == RELEASE.value(text) == Version(version.public)


@pytest.mark.parametrize(
    ("local", "known"),
    [
        ("cu130", True),
        ("cpu", True),
        ("rocm6.4", True),
        ("cu128.cxx11abitrue", True),
        ("precompiled", True),
        ("gdeadbeef", False),
        ("mypatch", False),
        ("cu130.mypatch", False),
    ],
)
def test_known_local_parts(local: str, known: bool) -> None:
    assert is_known_local(local) is known


@pytest.mark.parametrize("text", ["0.0.0+unknown", "dev", "main", "0.0.0", "", "0.6.10+unknown", "1.2.3+dirty", "v?", "latest"])
def test_placeholders_are_unknown_but_there(text: str) -> None:
    assert is_placeholder(text)
    if text:
        values = RELEASE.values(text)
        assert values.single() is None
        assert ABSENT not in values
        assert RELEASE.value("0.1") in values


@pytest.mark.parametrize("text", ["0.6.10", "0.6.10rc1", "0.6.10.dev5", "0.6.10+cu130", "v0.6.10"])
def test_no_placeholders(text: str) -> None:
    assert not is_placeholder(text)
    assert parse(text) is not None


RELEASES = [Version(text) for text in ("0.6.9", "0.6.10", "0.6.10.post1", "0.6.11", "0.6.12")]


@pytest.mark.parametrize(
    ("build", "below", "above"),
    [
        ("0.6.11.dev20260506", "0.6.10", "0.6.12"),
        ("0.6.11.dev1+g1a2b3c", "0.6.10", "0.6.12"),
        ("0.6.13.dev1", "0.6.12", None),
        ("0.6.1.dev1", None, "0.6.9"),
        ("0.6.10.post1.dev3", "0.6.9", "0.6.11"),
    ],
)
def test_a_development_build_lies_between_final_releases(build: str, below: str | None, above: str | None) -> None:
    found = neighbours(Version(build), RELEASES)
    assert found == (below and Version(below), above and Version(above))
    values = RELEASE.values(build, RELEASES)
    assert all(release in values for release in RELEASES if (below is None or release >= Version(below)) and (above is None or release <= Version(above)))
    assert isinstance(values, Ordered)
    assert values == Ordered.of(values.intervals)


def rows_pack(engine_releases: tuple[str, ...] = ("1.0", "2.0", "3.0")) -> PackData:
    trait = {"rows": [{"since": "1.0", "value": "m"}, {"since": "2.0", "value": "m"}, {"since": "3.0", "value": "n"}]}
    other = {"product": "beta", "title": "Beta", "role": "engine", "package": "beta", "releases": ["90.0", "91.0"]}
    return {
        **FACTS,
        "products/beta/product.yaml": ("product", other),
        "products/alpha/product.yaml": (
            "product",
            {"product": "alpha", "title": "Alpha", "role": "engine", "package": "alpha", "through": "3.0", "releases": list(engine_releases)},
        ),
        "products/alpha/traits.yaml": ("traits", {"traits": {"mode": trait}}),
    }


@pytest.mark.parametrize(
    ("version", "mode"),
    [
        ("1.0", "m"),
        ("2.0rc1", "m"),
        ("3.0rc1", "n"),
        ("3.0", "n"),
        ("1.1.dev7", "m"),
        ("2.1.dev7", None),
        ("3.1", None),
        ("0.9", None),
        ("0.0.0+unknown", None),
    ],
)
def test_rows_on_both_sides_of_a_build_must_agree(version: str, mode: str | None) -> None:
    """2.1.dev7 was cut between 2.0 and 3.0, whose rows differ; 1.1.dev7 between two whose rows agree. The releases are
    those of the engine that is named, whichever product comes first and in whichever order the facts are given."""
    pack = built(rows_pack())
    for stated in (
        {"engine.name": "alpha", "engine.version": version},
        {"engine.version": version, "engine.name": "alpha"},
        {"engine.name": "alpha", "engine.version": [version]},
    ):
        facts = Facts(pack, launched(pack, stated))
        assert facts.values("traits.engine.mode").single() == mode


def test_a_row_since_zero_holds_for_every_version() -> None:
    rows = Breakpoints(((Version("0"), "always"),))
    assert [value for _, value in rows.segments()] == ["always"]
    assert [value for _, value in rows.met(Ordered.of((EVERYTHING,)))] == ["always"]


def test_segments_meet_without_gap_or_overlap() -> None:
    rows = Breakpoints(((Version("1.0"), 1), (Version("2.0"), 2)), Version("2.5"))
    segments = list(rows.segments())
    assert [value for _, value in segments] == [None, 1, 2, None]
    joined = Ordered.of(interval for interval, _ in segments)
    assert joined == Ordered.of((EVERYTHING,))
    for (one, _), (two, _) in pairwise(segments):
        assert not Ordered((one,)) & Ordered((two,))


@pytest.mark.parametrize(
    ("text", "rendered"), [(">=0.6.10.post1,<0.6.12", "0.6.10.post1 to 0.6.11"), ("<0.6.10", "0.6.9"), (">=0.6.13", ""), (">=0.6.11", "0.6.11 to 0.6.12")]
)
def test_ranges_are_rendered_with_the_releases_in_them(text: str, rendered: str) -> None:
    (interval,) = RELEASE.range(text).intervals
    assert isinstance(interval, Interval)
    assert releases_between(RELEASES, interval) == rendered
    assert show(RELEASE.range(text)) == text


def test_an_exact_first_build_is_shown_as_it_is() -> None:
    assert show(Ordered.exactly(Version("0.6.10.dev0"))) == "0.6.10.dev0"
    assert show(RELEASE.range(">=0.6.10")) == ">=0.6.10"
