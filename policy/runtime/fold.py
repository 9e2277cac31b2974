"""Per-rank facts into one sentence: what all ranks say, and where they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from policy.runtime.plan import Reason

if TYPE_CHECKING:
    from policy.runtime.agreement import Vote


def ranks_text(ranks: Iterable[int]) -> str:
    """`rank 3`, `ranks 0, 2`, `ranks 0-3`: consecutive ranks as a span."""
    ordered = sorted(set(ranks))
    spans: list[tuple[int, int]] = []
    for rank in ordered:
        if spans and spans[-1][1] == rank - 1:
            spans[-1] = (spans[-1][0], rank)
        else:
            spans.append((rank, rank))
    words = [str(first) if first == last else f"{first}-{last}" if last > first + 1 else f"{first}, {last}" for first, last in spans]
    return f"rank{'s' if len(ordered) > 1 else ''} {', '.join(words)}"


def spoken(votes: Sequence[Vote], size: int) -> Reason:
    """One reason for all votes against: the lowest rank's, and who else says the same or something else."""
    first = min(votes, key=lambda vote: vote.rank)
    same = [vote.rank for vote in votes if vote.text == first.text]
    text = first.text
    if len(same) == size > 1:
        text += f" (all {size} ranks)"
    elif len(same) > 1:
        text += f" ({ranks_text(same)})"
    others = [vote for vote in votes if vote.text != first.text]
    if others:
        text += "; " + "; ".join(f"rank {vote.rank}: {vote.text}" for vote in others[:3])
        if len(others) > 3:
            text += f"; and {len(others) - 3} more"
    return Reason(first.phase, first.fact or "report", text, first.rank)


def differences(votes: Sequence[Vote]) -> list[Reason]:
    """Every fact that should be the same and is not, in the order in which the facts are listed; empty when all agree."""
    found = _compare(votes, [dict(vote.facts) for vote in votes])
    groups: dict[tuple[int, ...], list[Vote]] = {}
    by_rank = {vote.rank: vote for vote in votes}
    for vote in votes:
        groups.setdefault(vote.members, []).append(vote)
    for members, present in groups.items():
        foreign = [rank for rank in members if rank not in by_rank or by_rank[rank].members != members]
        alien = [vote.rank for vote in present if vote.rank not in members]
        if members and (foreign or alien):
            other = (foreign or alien)[0]
            named = "nothing" if other not in by_rank else ranks_text(members if other in alien else by_rank[other].members)
            text = f"{ranks_text(vote.rank for vote in present)} would share a workspace with {ranks_text(members)}, but rank {other} names {named}"
            found.append(Reason("vote", "group.members", text, other))
        found += _compare(present, [dict(vote.group_facts) for vote in present])
        devices = Counter(vote.device for vote in present if vote.device)
        for device, count in devices.items():
            if count > 1:
                sharing = [vote.rank for vote in present if vote.device == device]
                found.append(Reason("vote", "device.uuid", f"{ranks_text(sharing)} of one group share the device {device}", sharing[0]))
    return found


def _compare(votes: Sequence[Vote], facts: Sequence[dict[str, str]]) -> list[Reason]:
    names = list(dict.fromkeys(name for each in facts for name in each))
    found = []
    for name in names:
        holders: dict[str, list[int]] = {}
        for vote, each in zip(votes, facts, strict=True):
            holders.setdefault(each.get(name, "not stated"), []).append(vote.rank)
        if len(holders) > 1:
            found.append(_difference(name, holders))
    return found


def _difference(name: str, holders: dict[str, list[int]]) -> Reason:
    ordered = sorted(holders.items(), key=lambda item: (len(item[1]), -min(item[1])))
    (odd_value, odd_ranks), (common_value, common_ranks) = ordered[0], ordered[-1]
    have = "have" if len(odd_ranks) > 1 else "has"
    if len(ordered) == 2 and len(common_ranks) > len(odd_ranks):
        text = f"{ranks_text(odd_ranks)} {have} {_name(name)} {odd_value}, the others {common_value}"
    else:
        parts = [f"{ranks_text(ranks)} {value}" for value, ranks in sorted(holders.items(), key=lambda item: min(item[1]))]
        text = f"{_name(name)} differs: " + ", ".join(parts)
    return Reason("vote", name, text, min(odd_ranks))


def _name(fact: str) -> str:
    """A package is known by its distribution's name; other facts by their own."""
    return fact.removeprefix("packages.")
