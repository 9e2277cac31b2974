"""The protocol: explored exhaustively, and an explorer that must find the faults of broken variants of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policy.runtime.agreement import BROKEN, BUILD, REFUSED, Action, Finish, Look, Propose, PutVote, Ruling, View, Vote, decide, first_view, fold, overdue
from policy.runtime.explore import Exploration, Explorer
from policy.runtime.fold import differences, ranks_text, spoken
from policy.runtime.plan import FUSED, RESTART, UNFUSED, Outcome, Reason

MOST_OPERATIONS = {2: 4, 3: 5}  # vote, ruling, the missing votes one by one, propose


@pytest.mark.parametrize(("size", "faults"), [(2, 0), (2, 1), (2, 2), (2, 3), (3, 0), (3, 1)])
def test_every_interleaving(size: int, faults: int) -> None:
    found = Explorer(size, faults).run()
    assert found.violations == {}
    assert found.words() >= {FUSED, UNFUSED, RESTART}, "each outcome must be possible, or the safety holds for nothing"
    assert found.most_operations == MOST_OPERATIONS[size], "a rank past its clock comes to an end without anybody else"
    assert found.states > 2_000


def test_without_faults_all_ranks_end_alike() -> None:
    found = Explorer(3, 0).run()
    assert set(found.endings) == {(word,) * 3 for word in (FUSED, UNFUSED, RESTART)}


def broken(change: object) -> Exploration:
    return Explorer(2, 1, transition=change).run()  # type: ignore[arg-type]


def test_explorer_sees_a_rank_that_acts_on_its_own_proposal() -> None:
    assert "disagreement" in Explorer(2, 0, trust_own_proposal=True).run().violations


def test_explorer_sees_a_rank_that_guesses_after_losing_the_store() -> None:
    def guess(view: View) -> Action:
        return Finish(Outcome(UNFUSED, Reason("vote", "store", "guess"))) if view.lost else decide(view)

    assert "mixture" in broken(guess).violations


def test_explorer_sees_a_missing_vote_taken_as_ready() -> None:
    def hopeful(view: View) -> Action:
        action = decide(view)
        if isinstance(action, Propose) and None in view.votes:
            nonces = tuple(f"n{rank}" for rank in range(view.size))
            return Propose(Ruling(BUILD if view.round == 1 else FUSED, Reason("", "", ""), nonces))
        return action

    assert "guess" in broken(hopeful).violations


def test_explorer_sees_a_rank_that_waits_for_ever() -> None:
    def patient(view: View) -> Action:
        return Look() if view.expired and None in view.votes and view.voted and view.ruling is None and not view.lost else decide(view)

    assert "unbounded" in broken(patient).violations


def test_explorer_sees_fused_after_one_round() -> None:
    def hasty(view: View) -> Action:
        action = decide(view)
        if isinstance(action, Propose) and action.ruling.word == BUILD:
            return Propose(replace(action.ruling, word=FUSED))
        return action

    assert "guess" in broken(hasty).violations


def votes(size: int, **changes: Vote) -> list[Vote]:
    made = [Vote(rank, f"n{rank}", facts=(("packages.flashinfer-python", "0.6.12"),), members=tuple(range(size)), device=f"gpu-{rank}") for rank in range(size)]
    for name, vote in changes.items():
        made[int(name[1:])] = vote
    return made


def view_of(found: list[Vote | None], round_: int = 1, expired: bool = False) -> View:
    return replace(first_view(0, "n0", len(found)), round=round_, voted=True, votes=tuple(found), expired=expired, looked=expired)


def test_a_difference_is_readable() -> None:
    made: list[Vote | None] = [*votes(4, r3=Vote(3, "n3", facts=(("packages.flashinfer-python", "0.6.9"),), members=(0, 1, 2, 3)))]
    ruling = fold(view_of(made))
    assert ruling.word == UNFUSED
    assert ruling.reason.text == "rank 3 has flashinfer-python 0.6.9, the others 0.6.12"
    assert (ruling.reason.rank, ruling.reason.phase, ruling.reason.fact) == (3, "vote", "packages.flashinfer-python")


def test_several_values_name_all_ranks() -> None:
    made = [Vote(rank, "n", group_facts=(("target.max_tokens", value),), members=(0, 1, 2)) for rank, value in enumerate(("2048", "1024", "512"))]
    assert differences(made)[0].text == "target.max_tokens differs: rank 0 2048, rank 1 1024, rank 2 512"


def test_group_facts_are_compared_within_groups_only() -> None:
    made = [Vote(rank, "n", group_facts=(("node", "a" if rank < 2 else "b"),), members=(0, 1) if rank < 2 else (2, 3), device=str(rank)) for rank in range(4)]
    assert differences(made) == []
    assert differences([replace(vote, members=(0, 1, 2, 3)) for vote in made])[0].fact == "node"


def test_groups_must_be_named_alike() -> None:
    made = votes(4)
    made[0] = replace(made[0], members=(0, 1))
    assert differences(made)[0].fact == "group.members"
    assert differences([replace(vote, members=(0,) * 4) for vote in votes(4)])[0].fact == "group.members", "a rank that does not name itself"


def test_two_ranks_of_a_group_on_one_device() -> None:
    made = [replace(vote, device="gpu-0") for vote in votes(2)]
    assert differences(made)[0].text == "ranks 0, 1 of one group share the device gpu-0"


def test_reasons_are_folded() -> None:
    against = [Vote(rank, "n", REFUSED, "static", "device.platform", "there is no CUDA device") for rank in range(3)]
    assert spoken(against, 3).text == "there is no CUDA device (all 3 ranks)"
    assert spoken(against[:2], 3).text == "there is no CUDA device (ranks 0, 1)"
    mixed = [against[1], replace(against[2], text="the device is rocm, not cuda")]
    assert spoken(mixed, 3).text == "there is no CUDA device; rank 2: the device is rocm, not cuda"
    assert spoken(mixed, 3).rank == 1


@pytest.mark.parametrize(("ranks", "text"), [([3], "rank 3"), ([0, 1], "ranks 0, 1"), ([0, 1, 2, 5], "ranks 0-2, 5"), ([4, 2, 2], "ranks 2, 4")])
def test_ranks_text(ranks: list[int], text: str) -> None:
    assert ranks_text(ranks) == text


def test_missing_votes() -> None:
    some: list[Vote | None] = [*votes(4)]
    some[2] = None
    assert fold(view_of(some, expired=True)).word == UNFUSED
    second = fold(view_of(some, round_=2, expired=True))
    assert second.word == RESTART, "in round 2 a silent rank is stuck in a collective or dead"
    assert second.reason.text == "rank 2 has not reported by the deadline (dead or stuck in creation)"
    assert isinstance(decide(view_of(some)), Look), "before the clock runs out one waits"


def test_round_two() -> None:
    made: list[Vote | None] = [*votes(2)]
    assert fold(view_of(made, round_=2)).word == FUSED
    made[1] = Vote(1, "n1", REFUSED, "verify", "fused call", "off by 4.8")
    assert fold(view_of(made, round_=2)).word == UNFUSED
    made[0] = Vote(0, "n0", BROKEN, "verify", "fused call", "has not finished")
    assert fold(view_of(made, round_=2)).word == RESTART, "a rank that cannot serve outweighs one that can, unfused"


def test_a_ruling_of_another_start_is_not_obeyed() -> None:
    for word in (BUILD, FUSED):
        action = decide(replace(view_of([None, None]), ruling=Ruling(word, Reason("", "", ""), ("m0", "m1"))))
        assert isinstance(action, Finish)
        assert action.outcome.word == RESTART


def test_overdue_votes() -> None:
    assert overdue(first_view(1, "n", 2)).verdict == REFUSED
    assert overdue(first_view(1, "n", 2).next_round()).verdict == BROKEN
    late = replace(first_view(1, "n", 2), expired=True)
    assert isinstance(decide(late), PutVote)
