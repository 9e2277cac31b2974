"""The space of all launches as far as some conditions tell them apart: dimensions, cells and boxes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from policy.analyse.boxes import Box, TooWideError, meet, without_inner
from policy.analyse.cells import accepts, cells
from policy.analyse.lowering import TABULATED, Both, Literal, Lowering, Node
from policy.conditions import Atom, Condition, SetTest
from policy.facts import Fact
from policy.pack import Pack
from policy.records import dataclass, field
from policy.values import Values

#: Boxes that one condition may take in disjunctive normal form.
WIDEST = 20_000


def disjoint(one: Values, two: Values) -> bool:
    """Whether two sets of one fact share nothing."""
    return one.outside(two)  # type: ignore[arg-type]


@dataclass(slots=True)
class Space:
    """Dimensions are facts; each is cut into the cells that the conditions added so far tell apart. Every condition is
    added before the first box is asked for."""

    pack: Pack
    traits: str = TABULATED
    lowering: Lowering = field(init=False)
    full: dict[str, int] = field(default_factory=dict)
    _asked: dict[str, dict[Values | SetTest, None]] = field(default_factory=dict)
    _cells: dict[str, list[Values]] = field(default_factory=dict)
    _masks: dict[tuple[str, Values | SetTest], int] = field(default_factory=dict)
    _unions: dict[tuple[str, int], Values] = field(default_factory=dict)
    _added: dict[int, Atom] = field(default_factory=dict)
    _boxes: dict[tuple[int, int], tuple[Node, list[Box]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lowering = Lowering(self.pack, self.traits)

    # --- before the first box ---

    def add(self, *conditions: Condition) -> None:
        """Cut the dimensions by what these conditions ask."""
        for condition in conditions:
            for atom in condition.atoms():
                if id(atom) not in self._added:
                    self._added[id(atom)] = atom
                    for fact, accepted in self.lowering.asked(atom):
                        self.cut(fact, accepted)

    def cut(self, fact: str, *accepted: Values | SetTest) -> None:
        """Cut one dimension by further sets."""
        assert not self.full.get(fact), f"{fact} is cut already"
        self._asked.setdefault(fact, {}).update(dict.fromkeys(accepted))

    # --- dimensions ---

    @property
    def dimensions(self) -> list[str]:
        """Every fact that a condition speaks of."""
        return list(self._asked)

    def asked(self, name: str) -> list[Values | SetTest]:
        """What is asked of a dimension."""
        return list(self._asked.get(name, ()))

    def fact(self, name: str) -> Fact:
        """The fact of a dimension."""
        found = self.pack.fact(name)
        assert found is not None, name
        return found

    def cells(self, name: str) -> list[Values]:
        """The cells of a dimension."""
        held = self._cells.get(name)
        if held is None:
            held = self._cells[name] = cells(self.fact(name), self._asked.setdefault(name, {}))
            self.full[name] = (1 << len(held)) - 1
        return held

    def freeze(self) -> None:
        """Make the cells of every dimension."""
        if len(self._cells) < len(self._asked):
            for name in list(self._asked):
                self.cells(name)

    def mask(self, name: str, accepted: Values | SetTest) -> int:
        """The cells inside an accepted set."""
        key = (name, accepted)
        held = self._masks.get(key)
        if held is None:
            held = self._masks[key] = sum(1 << number for number, cell in enumerate(self.cells(name)) if accepts(accepted, cell))
        return held

    def touching(self, name: str, values: Values) -> int:
        """The cells that share a value with a set."""
        return sum(1 << number for number, cell in enumerate(self.cells(name)) if not disjoint(cell, values))

    def values(self, name: str, mask: int) -> Values:
        """The union of some cells."""
        known = self._unions.get((name, mask))
        if known is None:
            known = self._unions[name, mask] = self._union(name, mask)
        return known

    def _union(self, name: str, mask: int) -> Values:
        held = [cell for number, cell in enumerate(self.cells(name)) if mask >> number & 1]
        joined = held[0]
        for cell in held[1:]:
            joined = joined | cell  # type: ignore[operator]
        return joined

    def of_box(self, box: Mapping[str, int]) -> dict[str, Values]:
        """The values of every dimension that a box restricts."""
        return {name: self.values(name, mask) for name, mask in box.items()}

    # --- boxes ---

    def boxes(self, condition: Condition, may: bool = False, negated: bool = False, widest: int = WIDEST) -> list[Box]:
        """The condition as a union of boxes. Raises `TooWideError`."""
        self.freeze()
        return self.node_boxes(self.lowering.lower(condition, may, negated), widest)

    def node_boxes(self, node: Node, widest: int = WIDEST) -> list[Box]:
        """A lowered condition as a union of boxes. Raises `TooWideError`."""
        key = (id(node), widest)
        held = self._boxes.get(key)
        if held is None:
            held = self._boxes[key] = (node, self._dnf(node, widest))
        return held[1]

    def _dnf(self, node: Node, widest: int) -> list[Box]:
        if isinstance(node, Literal):
            inside = self.mask(node.fact, node.accepted)
            full = self.full[node.fact]
            mask = full & ~inside if node.negated else inside
            return [] if not mask else [{}] if mask == full else [{node.fact: mask}]
        if isinstance(node, Both):
            product: list[Box] = [{}]
            for part in sorted((self.node_boxes(part, widest) for part in node.parts), key=len):
                product = without_inner(met for one in product for two in part if (met := meet(one, two)) is not None)
                if len(product) > widest:
                    raise TooWideError
            return product
        union = [box for part in node.parts for box in self.node_boxes(part, widest)]
        if len(union) > widest:
            raise TooWideError
        return without_inner(self._joined(union))

    def _joined(self, boxes: Iterable[Box]) -> list[Box]:
        """Boxes that restrict one and the same dimension as one."""
        single: dict[str, int] = {}
        rest: list[Box] = []
        for box in boxes:
            if len(box) == 1:
                ((name, mask),) = box.items()
                single[name] = single.get(name, 0) | mask
            elif not box:
                return [{}]
            else:
                rest.append(box)
        if any(mask == self.full[name] for name, mask in single.items()):
            return [{}]
        return [{name: mask} for name, mask in single.items()] + rest
