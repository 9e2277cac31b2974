"""Foreign YAML: values as the consumer reads them, places as a person counts them, and limits."""

from __future__ import annotations

import pytest
import yaml

from policy.launchers import yaml_places
from policy.launchers.yaml_places import read_documents


@pytest.fixture(params=["C", "Python"], autouse=True)
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both of PyYAML's parsers."""
    if request.param == "Python":
        monkeypatch.setattr(yaml_places, "_LOADER", yaml.SafeLoader)
    elif not hasattr(yaml, "CSafeLoader"):
        pytest.skip("PyYAML was built without libyaml")
    return str(request.param)


def test_scalars_are_those_of_yaml_1_1() -> None:
    (document,) = read_documents("a: yes\nb: 'yes'\nc: 010\nd: 1_000\ne: ~\nf: 1e3\ng: 1.5\nh: 2026-01-01\ni: off\n").documents
    assert document.plain() == {"a": True, "b": "yes", "c": 8, "d": 1000, "e": None, "f": "1e3", "g": 1.5, "h": "2026-01-01", "i": False}


TEXT = """\
plain: some words
quoted: "a \\"b\\" c\\td"
single: 'it''s here'
literal: |
  first line
    second $X
folded: >-
  one two
  three
list: [x, {y: zed}]
"""


@pytest.mark.parametrize(
    ("path", "piece"),
    [(("plain",), "words"), (("quoted",), "b"), (("single",), "here"), (("literal",), "second"), (("folded",), "three"), (("list", 1, "y"), "zed")],
)
def test_places_inside_scalars(path: tuple[str | int, ...], piece: str) -> None:
    (document,) = read_documents(TEXT).documents
    node = document.at(*path)
    assert node is not None
    line, column = node.places()(node.text.index(piece))
    assert TEXT.split("\n")[line - 1][column - 1 :].startswith(piece)


def test_yaml_inside_yaml_has_places_in_the_file() -> None:
    text = "a: 1\ninner: |\n  x: 1\n  y:\n    - deep\n"
    (document,) = read_documents(text).documents
    inner = document.at("inner")
    assert inner is not None
    (nested,) = read_documents(inner.text, "f.yaml", inner.places()).documents
    deep = nested.at("y", 0)
    assert deep is not None
    assert (deep.line, deep.column) == (5, 7)


def test_merge_keys_and_anchors() -> None:
    (document,) = read_documents("base: &b {x: 1, y: 2}\nuse:\n  <<: *b\n  y: 3\nboth:\n  <<: [*b, {z: 9}]\n").documents
    assert document.plain() == {"base": {"x": 1, "y": 2}, "use": {"y": 3, "x": 1}, "both": {"x": 1, "y": 2, "z": 9}}


def test_a_key_given_twice_is_told_and_the_later_one_counts() -> None:
    read = read_documents("a: 1\nb: 2\na: 3\n", "f.yaml")
    assert read.documents[0].plain() == {"a": 3, "b": 2}
    assert [(notice.kind, str(notice.origin)) for notice in read.problems] == [("duplicate-key", "f.yaml:3:1")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: !!python/object/apply:os.system ['true']", "Python object"),
        ("a: &a [*a]", "contains itself"),
        ("a: *b", "undefined alias"),
        ("[" * 200 + "]" * 200, "nested deeper"),
        ("a: &a [" + "x," * 99 + "x]\n" + "\n".join(f"b{n}: &b{n} [{', '.join(['*b' + str(n - 1) if n else '*a'] * 50)}]" for n in range(6)), "expand to more"),
    ],
)
def test_what_is_refused(text: str, said: str) -> None:
    read = read_documents(text)
    assert any(said in notice.message for notice in read.problems), read.problems
    assert all(notice.origin.line is not None for notice in read.problems)


def test_sound_documents_are_kept_beside_a_broken_one() -> None:
    read = read_documents("a: 1\n---\nb: [\n---\nc: 3\n", "f.yaml")
    assert [document.plain() for document in read.documents] == [{"a": 1}, {"c": 3}]
    assert [notice.kind for notice in read.problems] == ["unparsable-yaml"]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a: 1\n<<<<<<< HEAD\nb: 2\n=======\nb: 3\n>>>>>>> main\nc: 4\n", {"a": 1, "b": 2, "c": 4}),
        ("a:\n\t- 1\n", {"a": [1]}),
        ("{{- if .Values.x }}\na: {{ .Values.y }}\n{{- end }}\n", {"a": "{{ .Values.y }}"}),
        ('a: {{ include "x" . }}-{{ .y }}\n', {"a": '{{ include "x" . }}-{{ .y }}'}),
    ],
)
def test_repairs(text: str, plain: object) -> None:
    read = read_documents(text, "f.yaml")
    assert [document.plain() for document in read.documents] == [plain]
    assert [(notice.kind, notice.remedy.startswith("it was read without")) for notice in read.problems] == [("unparsable-yaml", True)]


def test_repairs_keep_the_lines_of_the_file() -> None:
    text = "a: 1\n<<<<<<< HEAD\nb: 2\n=======\nb: 3\n>>>>>>> main\nc: 4\n"
    (document,) = read_documents(text).documents
    assert [(key, node.line) for key, node in document.items()] == [("a", 1), ("b", 3), ("c", 7)]


def test_too_much_is_refused_before_it_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_places, "MAX_CHARACTERS", 10)
    assert [notice.kind for notice in read_documents("a: 1\nb: 2\nc: 3\n").problems] == ["too-large"]
