"""The entry of the runtime: from a decision to one outcome on every rank, and the workspace where it is `fused`.

`settle` drives `agreement.decide`: it reads the clock, runs the rank's own work (static check, then build and verify) in
threads that can be given up, and carries out what the protocol says on a cloned store."""

from __future__ import annotations

import faulthandler
import os
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from policy.runtime.abandon import Job
from policy.runtime.agreement import BROKEN, READY, REFUSED, Enter, Finish, Look, Propose, PutVote, Vote, decide, first_view, with_vote
from policy.runtime.diagnose import Diagnosis, diagnose
from policy.runtime.facts import group_facts, launch_facts
from policy.runtime.latch import Latch
from policy.runtime.library import Library, installed
from policy.runtime.machine import Machine, probe_machine
from policy.runtime.plan import EXIT_RESTART, FUSED, RESTART, UNFUSED, Consumer, Deadline, Decision, Outcome, Reason, common_shape
from policy.runtime.static import refusal
from policy.runtime.store import AgreementStore, StoreLostError, StoreUnusableError, group_store

PHASES = ("static", "vote", "build", "verify", "commit")
#: Seconds past the deadline at which a call that still holds the whole interpreter is ended from outside it.
_LAST_RESORT = 4.5
#: Seconds that rank 0 waits at most for the others to have read the ruling.
_FAREWELL = 1.0
_generations: dict[str, int] = {}


@dataclass(slots=True)
class Settled:
    """What `settle` returns: the outcome, the same on every rank; the workspace where it is `fused`; the diagnosis where
    something did not come back; and the verified calls."""

    outcome: Outcome
    workspace: Any = None
    diagnosis: Diagnosis | None = None
    checks: list[Any] = field(default_factory=list)

    def exit_if_restart(self) -> None:
        """End this process with EXIT_RESTART where the outcome is `restart`, past destructors that could block."""
        if self.outcome.word == RESTART:
            _leave(self)


def _leave(settled: Settled) -> NoReturn:
    print(f"fusion-policy: {settled.outcome}", file=sys.stderr)
    if settled.diagnosis is not None:
        print(settled.diagnosis, file=sys.stderr)
    sys.stderr.flush()
    sys.stdout.flush()
    os._exit(EXIT_RESTART)


def settle(
    decision: Decision,
    consumers: Sequence[Consumer],
    group: Any = None,
    *,
    deadline: Deadline | None = None,
    launch_group: Any = None,
    device: Any = None,
    machine: Machine | None = None,
    library: Library | None = None,
    observer: Callable[[str], None] | None = None,
    last_resort: bool = True,
) -> Settled:
    """Agree over the launch, build over `group`, verify, commit. Collective over `launch_group` (None: WORLD).

    `group` is the process group that shares one workspace (None: WORLD); ranks of one launch may have different ones.
    `machine` and `library` are probed where not given. `observer` is told the phase that begins. With `last_resort` a
    creation that blocks the whole interpreter past the deadline ends the process (exit code 1, stacks on stderr).
    Never raises for anything that happens in the launch; raises what torch raises when no process group exists."""
    import torch.distributed as dist

    launch = launch_group if launch_group is not None else dist.group.WORLD
    scope = group if group is not None else dist.group.WORLD
    start = _Start(decision, tuple(consumers), scope, launch, deadline or Deadline(), device, machine, library, observer or (lambda phase: None), last_resort)
    return start.run()


class _Start:
    """One call of `settle` on one rank."""

    def __init__(
        self,
        decision: Decision,
        consumers: tuple[Consumer, ...],
        group: Any,
        launch: Any,
        deadline: Deadline,
        device: Any,
        machine: Machine | None,
        library: Library | None,
        observer: Callable[[str], None],
        last_resort: bool,
    ) -> None:
        import torch.distributed as dist

        self.decision, self.consumers, self.group, self.launch, self.deadline = decision, consumers, group, launch, deadline
        self.device, self.machine, self.library, self.observer, self.last_resort = device, machine, library, observer, last_resort
        self.begun = time.monotonic()
        self.rank, self.size = dist.get_rank(launch), dist.get_world_size(launch)
        self.name = str(getattr(launch, "group_name", "") or "launch")
        self.generation = _generations.get(self.name, 0)
        _generations[self.name] = self.generation + 1
        self.nonce = secrets.token_hex(6)
        self.latch = Latch(decision.digest, self.rank, self.nonce)
        self.seconds: dict[str, float] = {}
        self.workspace: Any = None
        self.checks: list[Any] = []
        self.job: Job[Vote] | None = None
        self.diagnosis: Diagnosis | None = None
        self.phase = "static"
        self.vote_written = False

    def run(self) -> Settled:
        if self.last_resort:
            faulthandler.dump_traceback_later(self.deadline.total + _LAST_RESORT, exit=True, file=sys.__stderr__ or sys.stderr)
        try:
            outcome = self._agree()
        except Exception as error:  # a defect of the adapter itself must not leave this rank without an outcome
            # without this rank's vote nobody can be fused; once it may have been written, the ruling is not known here
            word = RESTART if self.vote_written else UNFUSED
            outcome = Outcome(word, Reason(self.phase, "adapter", f"the adapter failed: {_described(error)}", self.rank))
        finally:
            if self.last_resort:
                faulthandler.cancel_dump_traceback_later()
        return self._conclude(outcome)

    # -- the protocol's driver
    def _agree(self) -> Outcome:
        view = first_view(self.rank, self.nonce, self.size)
        limits = {1: self.begun + self.deadline.agree_by, 2: self.begun + self.deadline.total}
        self.job = Job(self._static, "static check")
        try:
            store = AgreementStore(group_store(self.launch), self.name, self.generation, limits[2] + self.deadline.grace)
        except StoreUnusableError as error:  # nothing was written: without this rank's vote nobody can be fused
            return Outcome(UNFUSED, Reason("vote", "store", str(error), self.rank))
        except StoreLostError as error:
            return Outcome(RESTART, Reason("vote", "store", str(error), self.rank))
        pause, marks = 0.002, {1: self.begun, 2: 0.0}
        try:
            while True:
                expired = time.monotonic() >= limits[view.round]
                view = replace(view, expired=expired, looked=view.looked and view.expired)
                if view.ballot is None and not view.voted and self.job is not None and self.job.done:
                    view = replace(view, ballot=self._ballot(view.round, self.job))
                action = decide(view)
                if isinstance(action, Finish):
                    if action.outcome.word == FUSED and time.monotonic() > limits[2] + self.deadline.grace:
                        # this process was stopped meanwhile; the others may have given up on the store and gone
                        return Outcome(RESTART, Reason("commit", "deadline", "this rank came back after the last moment for an outcome", self.rank))
                    self.seconds.setdefault("vote" if view.round == 1 else "commit", time.monotonic() - marks[view.round])
                    if view.ruling is not None:
                        store.farewell(self.rank, self.size, _FAREWELL)
                    return action.outcome
                if isinstance(action, Enter):
                    self.seconds["vote"] = time.monotonic() - self.begun - self.seconds.get("static", 0.0)
                    self._enter_build(limits[2])
                    view, pause, marks[2] = view.next_round(), 0.002, time.monotonic()
                    continue
                try:
                    if isinstance(action, PutVote):
                        self._announce("vote" if view.round == 1 else "commit")
                        if view.ballot is None and view.round == 2:
                            self.diagnosis = diagnose(self, store)
                        self.vote_written = True
                        standing = store.put_vote(view.round, action.vote)
                        marks[view.round] = time.monotonic()
                        if standing.nonce != self.nonce:
                            view = replace(view, lost="another process has voted as this rank")
                        else:
                            view = replace(with_vote(view, standing), voted=True, ballot=None)
                    elif isinstance(action, Propose):
                        view = replace(view, ruling=store.propose(view.round, action.ruling))
                    else:
                        view, pause = self._look(view, store, pause, limits[view.round])
                except StoreLostError as error:
                    view = replace(view, lost=str(error))
        finally:
            store.close()

    def _look(self, view: Any, store: AgreementStore, pause: float, limit: float) -> tuple[Any, float]:
        assert isinstance(decide(view), Look)
        ruling = store.ruling(view.round)
        if ruling is not None:
            return replace(view, ruling=ruling), pause
        if view.voted:
            missing = [rank for rank, vote in enumerate(view.votes) if vote is None]
            for vote in store.votes(view.round, missing, each=view.expired):
                view = with_vote(view, vote)
            if None not in view.votes:
                return view, pause
        if view.expired:
            return replace(view, looked=True), pause
        nap = min(pause, max(limit - time.monotonic(), 0.0) + 0.001)
        if self.job is not None and not self.job.done and not view.voted:
            self.job.wait(nap)
        else:
            time.sleep(nap)
        return view, min(pause * 1.5, 0.05)

    def _ballot(self, round_: int, job: Job[Vote]) -> Vote:
        """The vote that the rank's own work amounts to; an error in it is a vote as well."""
        self.seconds.setdefault("static" if round_ == 1 else "build", job.seconds)
        try:
            return job.result()
        except Exception as error:
            return self._against(REFUSED, self.phase, "adapter" if round_ == 1 else "creation", _described(error))

    def _against(self, verdict: str, phase: str, fact: str, text: str) -> Vote:
        return Vote(self.rank, self.nonce, verdict, phase, fact, text)

    def _announce(self, phase: str) -> None:
        self.phase = phase
        self.observer(phase)

    # -- round 1: the rank's own check
    def _static(self) -> Vote:
        import torch.distributed as dist

        self._announce("static")
        latched = self.latch.reason()
        if latched is not None:
            return self._against(REFUSED, "static", "latch", latched)
        machine = self.machine = self.machine or probe_machine()
        library = self.library = self.library or installed(self.decision.plan.library if self.decision.plan else "flashinfer")
        group_size, members = dist.get_world_size(self.group), self._members()
        found = refusal(self.decision, self.consumers, library, machine, group_size, dist.get_world_size())
        if found is not None:
            return self._against(REFUSED, found.phase, found.fact, found.text)
        from policy.runtime.workspace import prepare

        assert self.decision.plan is not None
        device = self.device = self.device or (f"cuda:{machine.device_index}" if machine.device_index is not None else "cpu")
        prepare(library, self.decision.plan, common_shape(self.consumers), group_size, device)
        shared = os.environ.get("TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES") == "1"  # two ranks on one device on purpose, in torch's words
        return Vote(
            self.rank,
            self.nonce,
            READY,
            facts=launch_facts(self.decision, library, machine),
            members=members,
            device="" if shared else machine.device,
            group_facts=group_facts(self.decision, self.consumers, library, machine),
        )

    def _members(self) -> tuple[int, ...]:
        """The ranks that share this rank's workspace, in the group's order, numbered as in the launch group."""
        import torch.distributed as dist

        everybody = dist.get_process_group_ranks(self.launch)
        return tuple(everybody.index(rank) if rank in everybody else -1 for rank in dist.get_process_group_ranks(self.group))

    # -- round 2: build and verify
    def _enter_build(self, until: float) -> None:
        self.latch.arm()
        self.job = Job(lambda: self._build(until), "build")

    def _build(self, until: float) -> Vote:
        from policy.runtime.verify import FusedCallHungError, verify
        from policy.runtime.workspace import Workspace

        assert self.decision.plan is not None
        assert self.library is not None
        phase = "build"
        begun = time.monotonic()
        try:
            self._announce("build")
            self.workspace = Workspace.create(self.library, self.decision.plan, common_shape(self.consumers), self.group, self.device)
            self.seconds["build"] = time.monotonic() - begun
            phase, begun = "verify", time.monotonic()
            self._announce("verify")
            self.checks = verify(self.workspace, self.consumers, self.device, until)
            self.seconds["verify"] = time.monotonic() - begun
        except FusedCallHungError as error:
            return self._against(BROKEN, phase, "fused call", str(error))
        except Exception as error:
            broken = "CUDA" in type(error).__name__ or "AcceleratorError" in type(error).__name__
            return self._against(BROKEN if broken else REFUSED, phase, "creation" if phase == "build" else "fused call", _described(error))
        return Vote(self.rank, self.nonce, READY, phase="verify")

    # -- the end
    def _conclude(self, outcome: Outcome) -> Settled:
        if outcome.word == RESTART:
            self.latch.set(str(outcome.reason))
        else:
            self.latch.disarm()
        if outcome.word == UNFUSED and self.workspace is not None:
            workspace, self.workspace = self.workspace, None
            released = Job(workspace.teardown, "teardown")
            if not released.wait(self.deadline.grace):
                outcome = replace(outcome, details=(*outcome.details, "the teardown has not come back; the buffers may still be held"))
        self.seconds["total"] = time.monotonic() - self.begun
        outcome = replace(outcome, seconds=tuple((name, round(value, 4)) for name, value in self.seconds.items()))
        return Settled(outcome, self.workspace if outcome.word == FUSED else None, self.diagnosis, self.checks)


def _described(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"[:300]
