"""YAML and JSON text to data with places: what scalars mean, where things stand, and that both YAML parsers agree."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from policy.load import pack_files
from policy.source import Document, WrittenNumber, read_json, read_text, read_yaml
from tests.test_load import BROKEN, RULES, mutated


def data(text: str) -> Any:
    document, problems = read_yaml(text, "x.yaml")
    assert not problems, problems
    return document.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-1", -1),
        ("+3", 3),
        ("0", 0),
        ("012", 12.0),
        ("0x10", "0x10"),
        ("0o17", "0o17"),
        ("1_000", "1_000"),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("1.5e-3", 0.0015),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("99999999999999999999", "99999999999999999999"),
        ("true", True),
        ("True", True),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("'on'", "on"),
        ('"yes"', "yes"),
        ("'1'", "1"),
        ("text", "text"),
        ("2024-01-01", "2024-01-01"),
        ("12:30:45", "12:30:45"),
        ("0.6.10", "0.6.10"),
        ("=", "="),
        ("<<", "<<"),
        ("|\n  a\n  b\n", "a\nb\n"),
        (">-\n  a\n  b\n", "a b"),
    ],
)
def test_scalars(text: str, value: Any) -> None:
    found = data(f"key: {text}\n")["key"]
    assert found == value
    assert type(found) is type(value) or (isinstance(value, float) and isinstance(found, WrittenNumber))


@pytest.mark.parametrize("word", ["on", "off", "yes", "no", "On", "OFF", "Yes", "NO", "y", "n"])
def test_words_that_readers_disagree_about(word: str) -> None:
    for text in (f"key: {word}\n", f"{word}: 1\n", f"[a, {word}]\n"):
        _, problems = read_yaml(text, "x.yaml")
        (problem,) = problems
        assert f"`{word}` without quotes" in problem.message
        assert f'write `"{word}"`' in problem.help


def test_a_number_remembers_how_it_was_written() -> None:
    number = data("a: 0.10")["a"]
    assert (number, str(number)) == (0.1, "0.10")
    assert str(read_json('{"a": 0.10}', "x.json")[0].value["a"]) == "0.10"


def test_keys_become_text() -> None:
    assert data("1: a\ntrue: b\n2.50: c\n") == {"1": "a", "true": "b", "2.50": "c"}


def test_places() -> None:
    text = "top:\n  - {a: 1, bé: 'x'}\n  - word\nlast: |\n  many\n  lines\n"
    document, _ = read_yaml(text, "x.yaml")
    places = {path: (span.line, span.column, span.width) for path, span in document.values.items()}
    assert places[("top",)][:2] == (2, 3)
    assert places[("top", 0, "a")] == (2, 9, 1)
    assert places[("top", 0, "bé")] == (2, 16, 3)
    assert places[("top", 1)] == (3, 5, 4)
    assert document.span(("top", 0, "bé"), key=True).column == 12
    assert str(document.span(("top", 1))) == "x.yaml:3:5"
    # the nearest enclosing place stands for what is not there
    assert document.span(("top", 7, "z")) == document.span(("top",))


def test_places_of_json_are_found_when_a_problem_needs_them() -> None:
    document, problems = read_json('{\n  "a": {"b": [1,\n    22]}\n}', "x.json")
    assert not problems
    assert document.unplaced
    assert str(document.span(("a", "b", 1))) == "x.json:3:5"
    assert document.problem(("a", "b"), "wrong").render().splitlines()[:2] == ["x.json:2:14: wrong", '      "a": {"b": [1,']


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    text, problems = read_text(path, "x.yaml")
    assert (text, problems) == ("a: 1\n", [])


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(-(10**9), 10**9), st.text(max_size=8)),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
        max_leaves=12,
    )
)
def test_what_is_written_is_read(value: Any) -> None:
    """Any data that PyYAML writes with its strings quoted, and any JSON, comes back as it was."""
    import json

    text = json.dumps(value)
    assert read_json(text, "x.json")[0].value == value
    printable = json.dumps(value, ensure_ascii=True)
    if "\\u" not in printable and "\\" not in printable:
        document, problems = read_yaml(printable, "x.yaml")
        assert not problems
        assert document.value == value


# --- libyaml and the pure parser ---


def both(text: str, monkeypatch: pytest.MonkeyPatch) -> tuple[tuple[Document, Any], tuple[Document, Any]]:
    fast = read_yaml(text, "x.yaml")
    with monkeypatch.context() as without:
        without.delattr(yaml, "CSafeLoader")
        slow = read_yaml(text, "x.yaml")
    return fast, slow


def told(problems: Any) -> list[tuple[int, str]]:
    return [(problem.span.line, problem.message) for problem in problems]


@pytest.mark.skipif(not hasattr(yaml, "CSafeLoader"), reason="PyYAML was built without libyaml")
def test_both_parsers_read_the_shipped_files_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    small = [path for path in pack_files(RULES) if path.stat().st_size < 8000]
    for path in random.Random(5).sample(small, 40):
        (fast, fast_problems), (slow, slow_problems) = both(path.read_text(encoding="utf-8"), monkeypatch)
        assert fast.value == slow.value, path.name
        assert not fast_problems
        assert not slow_problems
        for places in ("values", "keys"):
            one, other = getattr(fast, places), getattr(slow, places)
            assert {path: (span.line, span.column) for path, span in one.items()} == {path: (span.line, span.column) for path, span in other.items()}


@pytest.mark.skipif(not hasattr(yaml, "CSafeLoader"), reason="PyYAML was built without libyaml")
def test_both_parsers_tell_the_same_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    for path in [*pack_files(BROKEN / "packs"), *(BROKEN / "facts").glob("*.yaml")]:
        text = path.read_text(encoding="utf-8")
        (fast, fast_problems), (slow, slow_problems) = both(text, monkeypatch)
        assert bool(fast_problems) == bool(slow_problems), path
        if any("this is no YAML" in problem.message for problem in (*fast_problems, *slow_problems)):
            continue
        assert told(fast_problems) == told(slow_problems), path
        assert fast.value == slow.value


@pytest.mark.skipif(not hasattr(yaml, "CSafeLoader"), reason="PyYAML was built without libyaml")
def test_both_parsers_agree_about_mutated_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one of them reads without a problem, the other reads as the same data or refuses."""
    generator = random.Random(8)
    content = (RULES.parent / "tests/broken/base/theme/several-groups.yaml").read_bytes()
    agreed = 0
    for _ in range(250):
        text = mutated(content, generator).decode("utf-8", "replace")
        (fast, fast_problems), (slow, slow_problems) = both(text, monkeypatch)
        if not fast_problems and not slow_problems:
            assert fast.value == slow.value, text
            agreed += 1
    assert agreed > 50
