"""The agreement on real stores: what stands is read back, and a store that stops takes nobody with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from policy.runtime.abandon import AbandonedError, Job, Servant
from policy.runtime.agreement import Ruling, Vote
from policy.runtime.plan import Reason
from policy.runtime.store import AgreementStore, StoreLostError, StoreUnusableError

dist = pytest.importorskip("torch.distributed", reason="torch is not installed: the agreement's store needs it")
HOST = "import torch.distributed as d, time; s = d.TCPStore('127.0.0.1', 0, is_master=True, wait_for_workers=False); print(s.port, flush=True); time.sleep(60)"
REASON = Reason("vote", "votes", "all agree")


@pytest.fixture(params=["hash", "file", "tcp"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "hash":
        return dist.HashStore()
    if request.param == "file":
        return dist.FileStore(str(tmp_path / "store"), 2)
    return dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


def test_first_writer_wins_and_everybody_reads_it_back(store: Any) -> None:
    one, other = (AgreementStore(dist.PrefixStore("group", store), "w", 0, time.monotonic() + 20) for _ in range(2))
    assert one.ruling(1) is None
    first, second = Ruling("build", REASON, ("a", "b"), ("detail",)), Ruling("unfused", REASON, ())
    assert one.propose(1, first) == first
    assert other.propose(1, second) == first
    assert other.ruling(1) == first
    assert other.ruling(2) is None


def test_votes(store: Any) -> None:
    one = AgreementStore(dist.PrefixStore("group", store), "w", 0, time.monotonic() + 20)
    vote = Vote(1, "nonce", facts=(("packages.torch", "2.13.0"),), group_facts=(("node", "a"),), members=(0, 1), device="gpu-1")
    assert one.votes(1, [0, 1], each=True) == []
    assert one.put_vote(1, vote) == vote
    assert one.put_vote(1, Vote(1, "another")) == vote, "a second process of the same rank sees that it is not the first"
    assert one.votes(1, [0, 1], each=False) == [], "all or none"
    assert one.votes(1, [0, 1], each=True) == [vote]
    assert one.votes(1, [1], each=False) == [vote]
    later = AgreementStore(dist.PrefixStore("group", store), "w", 1, time.monotonic() + 20)
    assert later.votes(1, [1], each=True) == [], "another generation has keys of its own"


@pytest.fixture
def host() -> Any:
    process = subprocess.Popen([sys.executable, "-c", HOST], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield process, dist.PrefixStore("group", dist.TCPStore("127.0.0.1", int(process.stdout.readline()), is_master=False))
    process.kill()
    process.wait()


def test_a_stopped_host_blocks_nobody(host: Any) -> None:
    process, store = host
    agreement = AgreementStore(store, "w", 0, time.monotonic() + 10)
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(0.2)
    agreement._until = time.monotonic() + 0.5
    begun = time.monotonic()
    with pytest.raises(StoreLostError, match="does not answer"):
        agreement.ruling(1)
    with pytest.raises(StoreLostError):
        agreement.ruling(1)
    with pytest.raises(StoreLostError, match="clone"):
        AgreementStore(store, "w", 0, time.monotonic() + 0.5)
    assert time.monotonic() - begun < 3


def test_a_killed_host(host: Any) -> None:
    process, store = host
    agreement = AgreementStore(store, "w", 0, time.monotonic() + 10)
    process.kill()
    process.wait()
    with pytest.raises(StoreLostError):
        agreement.put_vote(1, Vote(0, "n"))


def test_a_store_without_clone_is_told_before_anything_is_written() -> None:
    class Old:
        pass

    with pytest.raises(StoreUnusableError, match="cannot be cloned"):
        AgreementStore(Old(), "w", 0, time.monotonic() + 1)


def test_abandoned_work() -> None:
    servant = Servant("test")
    assert servant.call(lambda: 3, 1) == 3
    with pytest.raises(ZeroDivisionError):
        servant.call(lambda: 1 // 0, 1)
    with pytest.raises(AbandonedError):
        servant.call(lambda: time.sleep(5), 0.05)
    with pytest.raises(AbandonedError, match="earlier call"):
        servant.call(lambda: 3, 1)


def test_a_job_tells_where_it_stands() -> None:
    job = Job(lambda: time.sleep(0.5), "test")
    assert not job.wait(0.05)
    assert any("<lambda>" in line for line in job.stack())
    assert job.wait(2)
    assert job.stack() == []
