"""The pages under `docs/` are those that the pack makes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from policy.load import default_folder, read_pack
from policy.pages import pages

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return pages(read_pack(default_folder(), compiled=False))


def test_the_pages_are_the_generated_ones(made: dict[str, str]) -> None:
    there = {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")}
    stale = sorted(path for path in {*made, *there} if made.get(path) != there.get(path))
    assert not stale, f"run `policy docs`: {stale[:5]}"


def test_every_link_leads_somewhere(made: dict[str, str]) -> None:
    broken = []
    for path, text in made.items():
        for target in re.findall(r"\]\(([^)#]+\.md)\)", text):
            resolved = (Path(path).parent / target).as_posix()
            parts: list[str] = []
            for part in resolved.split("/"):
                if part == "..":
                    parts.pop()
                elif part != ".":
                    parts.append(part)
            if "/".join(parts) not in made:
                broken.append((path, target))
    assert not broken


def test_a_page_for_each_rule_trait_gate_and_fusion(made: dict[str, str]) -> None:
    pack = read_pack(default_folder(), compiled=False)
    expected = {f"rules/{name}.md" for name in pack.rules} | {f"fusions/{name}.md" for name in pack.fusions}
    expected |= {f"gates/{gate.id}.md" for product in pack.products.values() for gate in product.gates.values()}
    expected |= {f"traits/{product.name}.md" for product in pack.products.values() if product.traits}
    assert expected <= set(made)
