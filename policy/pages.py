"""The pages under `docs/`, made from a pack: one a rule, a fusion, an engine's gate and a product's traits, and an index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from policy.commands.conditions_text import lines as condition_lines
from policy.commands.rule import page as rule_page
from policy.conditions import ALWAYS, NEVER
from policy.decision import Decision
from policy.evaluate import evaluate
from policy.facts import plain
from policy.launch import Launch
from policy.origin import Origin
from policy.pack import Arm, Fusion, Gate, Pack, Product, Switch, Trait
from policy.versions import shown

#: The launches that the matrix of a fusion shows, beside the size of the tensor-parallel group.
SHAPES: dict[str, dict[str, Any]] = {
    "TP 8": {"parallel.tensor_parallel_size": 8},
    "TP 2, PP 2": {"parallel.tensor_parallel_size": 2, "parallel.pipeline_parallel_size": 2},
    "TP 2, DP 2, mixture of experts": {"parallel.tensor_parallel_size": 2, "parallel.data_parallel_size": 2, "model.is_moe": True},
    "TP 2, DP 2, dense": {"parallel.tensor_parallel_size": 2, "parallel.data_parallel_size": 2, "model.is_moe": False},
    "TP 16 on 2 nodes": {"parallel.tensor_parallel_size": 16, "parallel.nodes": 2, "device.fabric": False},
}
#: The machine of the matrix.
MACHINE: dict[str, Any] = {
    "device.platform": "cuda",
    "device.compute_capability": "9.0",
    "device.interconnect": "nvswitch",
    "device.multicast": True,
    "device.gpus_per_node": 8,
    "model.is_moe": False,
    "model.hidden_size": 8192,
    "model.dtype": "bfloat16",
}


def pages(pack: Pack) -> dict[str, str]:
    """Path below `docs/` -> text, all links relative."""
    made = {"README.md": _index(pack)}
    for rule in pack.rules.values():
        made[f"rules/{rule.id}.md"] = _relative(rule_page(rule, pack), pack)
    for fusion in pack.fusions.values():
        made[f"fusions/{fusion.id}.md"] = _fusion(fusion, pack)
    for product in pack.products.values():
        if product.traits:
            made[f"traits/{product.name}.md"] = _traits(product, pack)
        for gate in product.gates.values():
            made[f"gates/{gate.id}.md"] = _gate(gate, product, pack)
    return {path: text.rstrip() + "\n" for path, text in made.items()}


def _relative(text: str, pack: Pack) -> str:
    """Places of the pack as `rules/…`, wherever the pack lies."""
    kept = [line for line in text.splitlines() if not line.startswith("- written in ")]
    return "\n".join(kept)


def _index(pack: Pack) -> str:
    lines = ["# What the pack knows", "", f"Made from the pack by `policy docs`; {len(pack.rules)} rules, {len(pack.fusions)} fusions.", "", "## Fusions", ""]
    lines.extend(f"- [{fusion.id}](fusions/{fusion.id}.md): {fusion.title}" for fusion in pack.fusions.values())
    lines.extend(("", "## Gates of the engines", ""))
    lines.extend(
        f"- [{gate.id}](gates/{gate.id}.md): {product.title}, `{gate.setting}`" for product in pack.products.values() for gate in product.gates.values()
    )
    lines.extend(("", "## Traits of releases", ""))
    lines.extend(f"- [{product.title}](traits/{product.name}.md)" for product in pack.products.values() if product.traits)
    lines.extend(("", "## Rules", "", "| rule | effect | when ignored | evidence |", "|---|---|---|---|"))
    lines.extend(
        f"| [{rule.id}](rules/{rule.id}.md) | {rule.effect} | {(rule.consequence or '').replace('_', ' ')} | {rule.evidence} |"
        for rule in sorted(pack.rules.values(), key=lambda one: one.id)
    )
    return "\n".join(lines)


# --- fusions ---


def _fusion(fusion: Fusion, pack: Pack) -> str:
    lines = [f"# {fusion.id}", "", fusion.title, ""]
    if fusion.description:
        lines.extend((fusion.description, ""))
    for word, others in (("requires", fusion.requires), ("decided after", fusion.after)):
        if others:
            lines.extend((f"{word}: {', '.join(f'[{other}]({other}.md)' for other in others)}", ""))
    lines.extend(("## Plans, best first", ""))
    for plan in fusion.plans:
        attributes = ", ".join(f"{name} {value}" for name, value in plan.attributes.items() if name not in ("fusion", "id"))
        lines.append(f"- **{plan.id}**: {plan.title or attributes} ({attributes})" if plan.title else f"- **{plan.id}**: {attributes}")
    lines.extend(_switches(fusion, pack))
    for product in pack.products.values():
        if fusion.id in product.gates:
            lines.extend(_matrix(fusion, product, pack))
    rules = sorted({rule.id for plan in fusion.plans for rule in pack.rules_for(plan)})
    if rules:
        lines.extend(("", "## Rules about it", "", *(f"- [{name}](../rules/{name}.md): {pack.rules[name].title}" for name in rules)))
    return "\n".join(lines)


def _window(switch: Switch) -> str:
    return f"{shown(switch.since)} to {shown(switch.until) + ' (not included)' if switch.until else 'now'}"


def _switches(fusion: Fusion, pack: Pack) -> list[str]:
    rows = [
        f"| {product.title} | {_window(switch)} | {switch.turn} | {switch.kind} | `{switch.text}` |"
        for product in pack.products.values()
        for switch in product.switches
        if switch.fusion == fusion.id
    ]
    return ["", "## Switches", "", "| engine | releases | turns | kind | words |", "|---|---|---|---|---|", *rows] if rows else []


def _matrix(fusion: Fusion, product: Product, pack: Pack) -> list[str]:
    """Releases against launches, neighbouring releases with equal rows joined."""
    rows: list[tuple[list[str], list[str]]] = []
    for release in product.releases:
        cells = [_cell(pack, fusion, product, str(release), shape) for shape in SHAPES.values()]
        if rows and rows[-1][1] == cells:
            rows[-1][0].append(str(release))
        else:
            rows.append(([str(release)], cells))
    lines = ["", f"## {product.title} on an H100 node, with the FlashInfer that each release requires", ""]
    lines.append("What the engine does left alone, and what is decided (posture safe) where that differs.")
    lines.extend(("", f"| release | {' | '.join(SHAPES)} |", "|---|" + "---|" * len(SHAPES)))
    lines.extend(f"| {names[0] if len(names) == 1 else names[0] + ' to ' + names[-1]} | {' | '.join(cells)} |" for names, cells in rows)
    return lines


def _cell(pack: Pack, fusion: Fusion, product: Product, release: str, shape: Mapping[str, Any]) -> str:
    launch = Launch.of(pack, {"engine.name": product.name, "engine.version": release, **MACHINE, **shape}, Origin("set"))
    decision: Decision = evaluate(pack, launch, fusions=[fusion.id])[fusion.id]
    alone = decision.left_alone
    engine = {"on": f"on, {alone.built.replace('_', ' ')}" if alone.built != "fused" else "on", "off": "off", "dies": "does not start", "unknown": "not known"}[
        alone.state
    ]
    if decision.state == alone.state or (decision.state == "off" and alone.state == "dies") or (decision.state == "undetermined" and alone.state == "unknown"):
        return engine + (f" (by `{decision.switches[0].text}`)" if decision.state == "on" and decision.switches else "")
    why = f": [{decision.reason.id}](../rules/{decision.reason.id}.md)" if decision.reason.id in pack.rules else ""
    return f"{engine} → {decision.state}{why}"


# --- products ---


def _traits(product: Product, pack: Pack) -> str:
    through = f", read through {shown(product.through)}" if product.through else ""
    lines = [f"# What {product.title} releases can do", "", f"From `{product.version_fact}`{through}.", ""]
    for trait in product.traits.values():
        lines.extend(_trait(trait, pack))
    return "\n".join(lines)


def _trait(trait: Trait, pack: Pack) -> Iterable[str]:
    fact = pack.fact(trait.fact)
    yield f"## {trait.fact}"
    yield ""
    if fact is not None:
        yield fact.description
        yield ""
    yield "| since | value |"
    yield "|---|---|"
    for since, value in trait.breakpoints.rows:
        yield f"| {shown(since)} | {'not known' if value is None else ', '.join(map(plain, value)) if isinstance(value, list) else plain(value)} |"
    if trait.references:
        yield ""
        yield f"References: {', '.join(trait.references)}"
    yield ""


def _gate(gate: Gate, product: Product, pack: Pack) -> str:
    lines = [
        f"# {gate.id}",
        "",
        f"What {product.title} does with [{gate.fusion}](../fusions/{gate.fusion}.md) when left alone (`{gate.setting}`), read through {shown(gate.through)};",
        "later releases are predicted by the newest one, and the answer says so.",
        "",
    ]
    for since, arm in gate.arms.rows:
        lines.extend((f"## From {shown(since)}", "", *_arm(arm, pack), ""))
    if gate.references:
        lines.append(f"References: {', '.join(gate.references)}")
    return "\n".join(lines)


def _arm(arm: Arm, pack: Pack) -> Iterable[str]:
    if not arm.known:
        yield "Not read: what these releases do is not known."
        return
    if arm.note:
        yield f"{arm.note}."
        yield ""
    if arm.unset == NEVER:
        yield "Nothing requested: off."
    else:
        yield "Nothing requested: on where"
        yield ""
        yield from condition_lines(arm.unset, pack)
    for title, condition, default in (
        ("Requested on: on where", arm.requested_on, ALWAYS),
        ("Requested off: on all the same where", arm.requested_off, NEVER),
        (f"The launch does not start ({arm.dies_why}) where", arm.dies, NEVER),
    ):
        if condition != default:
            yield ""
            yield title
            yield ""
            yield from condition_lines(condition, pack)
    for take in arm.takes:
        chain = ", then ".join(str(link).replace(f", fusion {link.wanted.get('fusion', '')}", "").split(", fusion")[0] for link in take.chain)
        yield ""
        yield f"It takes {chain}{' (falling back by itself)' if take.falls_back else ''}" + ("." if take.when == ALWAYS else " where")
        if take.when != ALWAYS:
            yield ""
            yield from condition_lines(take.when, pack)
