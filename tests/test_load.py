"""Loading packs and facts: every problem with its place and what to do, all at once, never a traceback, never half a pack."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from policy.check import check
from policy.compiled import compiled_text, load_compiled
from policy.load import build_checked, digest_of, pack_files, read_pack, read_sources
from policy.pack import Pack
from policy.problems import LaunchError, PackError, PolicyError, render

BROKEN = Path(__file__).parent / "broken"
BASE = BROKEN / "base"
RULES = Path(__file__).parents[1] / "rules"


def golden(path: Path, text: str, rewrite: bool) -> None:
    """Compare with a golden file, or write it."""
    if rewrite:
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), f"{path.name} is missing: run with --rewrite, and read it"
    assert text == path.read_text(encoding="utf-8")


def said(folder: str) -> str:
    """What loading a broken pack says, and that nothing is loaded."""
    with pytest.raises(PackError) as caught:
        read_pack(folder, compiled=False)
    text = str(caught.value)
    assert all(problem.span is not None for problem in caught.value.problems)
    return text + "\n"


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the small pack as the folder `pack` of the working folder."""
    shutil.copytree(BASE, tmp_path / "pack")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "pack"


def test_the_base_has_no_mistake(small: Path) -> None:
    assert set(read_pack("pack", compiled=False).rules) == {"several-groups", "level-limits-size", "known/first", "known/second"}


@pytest.mark.parametrize("name", sorted(path.name for path in (BROKEN / "packs").iterdir() if path.is_dir()))
def test_broken_pack(name: str, small: Path, rewrite: bool) -> None:
    shutil.copytree(BROKEN / "packs" / name, small, dirs_exist_ok=True)
    golden(BROKEN / "packs" / f"{name}.txt", said("pack"), rewrite)


@pytest.mark.parametrize("name", sorted(path.name for path in (BROKEN / "lints").iterdir() if path.is_dir()))
def test_what_a_check_finds_in_a_pack_that_loads(name: str, small: Path, rewrite: bool) -> None:
    shutil.copytree(BROKEN / "lints" / name, small, dirs_exist_ok=True)
    sources = read_sources(Path("pack"), pack_files(Path("pack")))
    report = check(build_checked(sources, "0" * 16, Path("pack")), sources)
    assert report.problems
    golden(BROKEN / "lints" / f"{name}.txt", render(report.problems) + "\n", rewrite)


def test_a_check_finds_nothing_in_the_base(small: Path) -> None:
    sources = read_sources(small, pack_files(small))
    report = check(build_checked(sources, "0" * 16, small), sources)
    assert (report.problems, report.cases) == ([], 8)


# --- packs that files cannot hold ---


def bomb(pack: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"] + [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 9)]
    (pack / "theme" / "bomb.yaml").write_text("\n".join(lines))


def change(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


def broken_link(pack: Path) -> None:
    (pack / "theme" / "gone.yaml").symlink_to("nowhere.yaml")


def pipe(pack: Path) -> None:
    os.mkfifo(pack / "theme" / "pipe.yaml")


MADE: dict[str, Callable[[Path], object]] = {
    "alias_bomb": bomb,
    "deep_nesting": lambda pack: (pack / "theme" / "deep.yaml").write_text("[" * 100),
    "deep_blocks": lambda pack: (pack / "theme" / "deep.yaml").write_text("\n".join(" " * level + "a:" for level in range(60))),
    "deep_conditions": lambda pack: change(pack / "theme/several-groups.yaml", '{site.size: ">=2", site.flag: true}', "{not: " * 40 + "big" + "}" * 40),
    "chain_of_conditions": lambda pack: (pack / "conditions.yaml").write_text(
        (BASE / "conditions.yaml").read_text()
        + "".join(f"  c{number}: {{title: x, when: c{number + 1}}}\n" for number in range(1500))
        + "  c1500: {title: x, when: big}\n"
    ),
    "huge_file": lambda pack: (pack / "theme" / "huge.yaml").write_text("id: huge\nwhy: " + "x" * 2_000_000),
    "not_utf8": lambda pack: (pack / "theme" / "latin.yaml").write_bytes("id: latin\ntitle: caf\u00e9\n".encode("latin-1")),
    "utf16": lambda pack: (pack / "theme" / "wide.yaml").write_bytes("id: wide\n".encode("utf-16")),
    "nul_bytes": lambda pack: (pack / "theme" / "nul.yaml").write_bytes(b"id: nul\ntitle: a\x00b\n"),
    "folder_named_like_a_file": lambda pack: (pack / "theme" / "x.yaml").mkdir(),
    "link_to_nothing": broken_link,
    "pipe": pipe,
    "no_manifest": lambda pack: (pack / "pack.yaml").unlink(),
    "no_such_folder": lambda pack: shutil.rmtree(pack),
    "a_file_for_a_folder": lambda pack: (shutil.rmtree(pack), pack.write_text("name: x\n")),
    "empty_folder": lambda pack: (shutil.rmtree(pack), pack.mkdir()),
    "two_manifests": lambda pack: (pack / "pack.yml").write_text((BASE / "pack.yaml").read_text()),
    "another_format": lambda pack: (pack / "pack.yaml").write_text((BASE / "pack.yaml").read_text().replace("format: 1", "format: 2")),
    "no_product_file": lambda pack: (pack / "products/lib/product.yaml").unlink(),
    "no_facts": lambda pack: (pack / "facts/site.yaml").unlink(),
}


@pytest.mark.parametrize("name", sorted(MADE))
def test_made_pack(name: str, small: Path, rewrite: bool) -> None:
    MADE[name](small)
    golden(BROKEN / "made" / f"{name}.txt", said("pack"), rewrite)


def test_unreadable_file(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the operating system's answer, since permissions do not stop a privileged user."""
    opened = open

    def refuse(path: object, *rest: object, **more: object) -> object:
        if str(path).endswith("several-groups.yaml"):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *rest, **more)  # type: ignore[call-overload]

    monkeypatch.setattr("builtins.open", refuse)
    assert said("pack") == "pack/theme/several-groups.yaml:1:1: cannot be read: permission denied\n"


def test_many_values(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("policy.source.MAX_NODES", 1000)
    (small / "theme" / "many.yaml").write_text("references:\n" + "- x\n" * 1200)
    assert said("pack").startswith("pack/theme/many.yaml:999:3: more than 1000 values in one file\n")


# --- facts ---


def launch_of(pack: Pack, files: list[str], assignments: list[str]) -> object:
    from policy.launchers.inputs import Request, launches

    return launches(pack, Request(facts=files, assignments=assignments, probe=False))


@pytest.mark.parametrize("name", sorted(path.name for path in (BROKEN / "facts").iterdir() if path.suffix != ".txt"))
def test_broken_facts(name: str, small: Path, rewrite: bool) -> None:
    shutil.copy(BROKEN / "facts" / name, small.parent / name)
    with pytest.raises(LaunchError) as caught:
        launch_of(read_pack("pack", compiled=False), [name], [])
    golden((BROKEN / "facts" / name).with_suffix(".txt"), str(caught.value) + "\n", rewrite)


def test_broken_assignments(small: Path, rewrite: bool) -> None:
    path = BROKEN / "assignments.txt"
    pack = read_pack("pack", compiled=False)
    written: list[str] = []
    for word in [line.removeprefix("$ --set ") for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("$ --set ")]:
        with pytest.raises(PolicyError) as caught:
            launch_of(pack, [], [word])
        written.append(f"$ --set {word}\n{caught.value}\n")
    assert len(written) > 10
    golden(path, "\n".join(written), rewrite)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("latin.yaml", "site.kind: caf\u00e9".encode("latin-1")),
        ("empty.yaml", b""),
        ("list.yaml", b"- 1"),
        ("text.json", b'"site"'),
        ("deep.json", b'{"a":' * 100_000),
        ("number.json", b"{" + b'"site.size": ' + b"9" * 5000 + b"}"),
        ("nan.json", b'{"site.level": NaN}'),
        ("nul.yaml", b"a: \x00"),
    ],
)
def test_facts_that_files_cannot_show(name: str, content: bytes, small: Path) -> None:
    Path(name).write_bytes(content)
    with pytest.raises(LaunchError):
        launch_of(read_pack("pack", compiled=False), [name], [])
    with pytest.raises(LaunchError, match="no such file"):
        launch_of(read_pack("pack", compiled=False), ["missing.yaml"], [])
    with pytest.raises(LaunchError, match="this is a folder"):
        launch_of(read_pack("pack", compiled=False), ["pack"], [])


# --- nothing but a PolicyError, whatever the bytes ---

INSERTED = [
    b"\t",
    b"\n",
    b": ",
    b"- ",
    b"{",
    b"}",
    b"[",
    b"]",
    b"&a ",
    b"*a ",
    b"!!x ",
    b"'",
    b'"',
    b"#",
    b"%",
    b"|",
    b">",
    b"?",
    b"null",
    b"on",
    b"0.10",
    b"-1",
    b"\x00",
    b"\xff",
    b"\xc3\xa9",
    b"---\n",
    b"99999999999999999999999",
    b"..",
    b"{}",
    b"[]",
    b"1e400",
    b"absent",
    b"unknown",
]


def mutated(content: bytes, generator: random.Random) -> bytes:
    """One to three small changes: a few bytes dropped, repeated or replaced, a line moved."""
    for _ in range(generator.randint(1, 3)):
        at = generator.randrange(len(content) + 1)
        until = min(len(content), at + generator.choice([1, 1, 2, 5, 20]))
        kind = generator.randrange(5)
        if kind == 0:
            content = content[:at] + content[until:]
        elif kind == 1:
            content = content[:at] + generator.choice(INSERTED) + content[at:]
        elif kind == 2:
            content = content[:at] + generator.choice(INSERTED) + content[until:]
        elif kind == 3:
            content = content[:until] + content[at:until] + content[until:]
        else:
            lines = content.split(b"\n")
            lines.insert(generator.randrange(len(lines) + 1), lines.pop(generator.randrange(len(lines))))
            content = b"\n".join(lines)
    return content


def loads_or_tells(folder: Path) -> bool:
    """Whether a pack loads; what is raised otherwise has problems and renders."""
    try:
        pack = read_pack(folder, compiled=False)
    except PolicyError as error:
        assert error.problems  # noqa: PT017
        assert str(error).strip()  # noqa: PT017
        return False
    assert pack.fusions
    return True


def test_mutated_small_packs(small: Path) -> None:
    generator = random.Random(20)
    files = pack_files(small)
    loaded = 0
    for _ in range(180):
        path = generator.choice(files)
        content = path.read_bytes()
        path.write_bytes(mutated(content, generator))
        loaded += loads_or_tells(small)
        path.write_bytes(content)
    assert 10 < loaded < 170


def test_mutated_files_of_the_shipped_pack(tmp_path: Path) -> None:
    """Every kind of file of the real pack, each file alone: shape, and meaning as far as the file goes by itself."""
    generator = random.Random(21)
    for path in generator.sample(pack_files(RULES), 60):
        target = tmp_path / path.relative_to(RULES)
        target.parent.mkdir(parents=True, exist_ok=True)
        for _ in range(3):
            target.write_bytes(mutated(path.read_bytes(), generator))
            try:
                read_sources(tmp_path, [target])
            except PolicyError as error:
                assert str(error).strip()  # noqa: PT017
        target.unlink()


# --- the compiled form ---


def test_the_compiled_pack_is_the_pack(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    first = read_pack("pack")
    (kept,) = (tmp_path / "cache" / "fusion-policy").glob("*.json")
    second = load_compiled(small, first.digest)
    assert second is not None
    for part in ("name", "version", "digest", "conditions", "condition_titles", "fusions", "products", "devices"):
        # the compiled form keeps lines, and no columns
        assert re.sub(r"column=\d+", "", repr(getattr(first, part))) == re.sub(r"column=\d+", "", repr(getattr(second, part))), part
    # cases are left out: only `policy check` runs them
    assert {name: rule.when for name, rule in first.rules.items()} == {name: rule.when for name, rule in second.rules.items()}
    assert {str(rule.place) for rule in first.rules.values()} == {str(rule.place) for rule in second.rules.values()}
    for damage in (
        b"",
        b"{}",
        kept.read_bytes()[:200],
        kept.read_bytes().replace(b"sources", b"sauces"),
        kept.read_bytes().replace(b"digest ", b"digest 0"),
        kept.read_bytes().replace(b"hang", b"bang"),
        b"\xff" * 100,
    ):
        kept.write_bytes(damage)
        assert load_compiled(small, first.digest) is None
        assert read_pack("pack").rules.keys() == first.rules.keys()


def test_a_changed_file_is_read_anew(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    before = read_pack("pack")
    path = small / "theme/level-limits-size.yaml"
    path.write_text(path.read_text().replace("1024", "2048"))
    after = read_pack("pack")
    assert before.digest != after.digest
    assert (before.rules["level-limits-size"].limits, after.rules["level-limits-size"].limits) == ({"max_bytes": 1024}, {"max_bytes": 2048})
    path.write_text("id: [")
    with pytest.raises(PackError):
        read_pack("pack")


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").write_text("a file, no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert read_pack("pack").rules


def test_the_digest_covers_names_and_bytes(small: Path) -> None:
    files = pack_files(small)
    digest = digest_of(small, files)
    (small / "theme/level-limits-size.yaml").rename(small / "theme/level-limits-size.yml")
    assert digest_of(small, pack_files(small)) != digest


def test_compiled_text_is_the_same_every_time(small: Path) -> None:
    sources = read_sources(small, pack_files(small))
    pack = build_checked(sources, "0" * 16, small)
    assert compiled_text(sources, pack) == compiled_text(read_sources(small, pack_files(small)), pack)
