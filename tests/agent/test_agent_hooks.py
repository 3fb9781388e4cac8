"""The phases of a step, learned from real torch: one process, gloo, a tiny model."""

from __future__ import annotations

import subprocess
import sys

import pytest
from agent_build import enter_rank, events, order

import chaos.agent

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402

from chaos.agent.hooks import step as hooks  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # torch's own, about its own names


@pytest.fixture(scope="module")
def group(tmp_path_factory):
    store = dist.FileStore(str(tmp_path_factory.mktemp("store") / "s"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield store
    dist.destroy_process_group()


@pytest.fixture
def unhooked(monkeypatch):
    """What `watch` puts in place for a whole process is taken out again after the test."""
    for name in hooks.COLLECTIVES:
        if hasattr(dist, name):
            monkeypatch.setattr(dist, name, getattr(dist, name))
    monkeypatch.setattr(torch.Tensor, "backward", torch.Tensor.backward)
    monkeypatch.setattr(hooks, "_watched", None)


@pytest.fixture
def job(run_dir, group, unhooked):
    enter_rank(chaos.agent)
    chaos.agent.group_ready(group, rank=0, world_size=1, backend="gloo")
    job = Job()
    chaos.agent.watch(job.model, job.optimizer, first_step=1)
    return job


class Job:
    """A training loop of three lines. `reduce` is how it sums its gradient."""

    def __init__(self):
        self.model = torch.nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.reduce = dist.all_reduce
        self.issued = []
        self.model.weight.register_hook(self._reduced)

    def _reduced(self, gradient):
        self.reduce(gradient)
        return gradient

    def step(self, number):
        self.optimizer.zero_grad()
        loss = self.model(torch.ones(2, 4)).sum()
        loss.backward()
        self.optimizer.step()
        chaos.agent.step_done(number, loss=loss.item(), lr=0.1, grad_norm=1.0, samples=(number, number + 1))


def told(run_dir):
    names = {"phase_entered": "phase", "step_returned": "kind", "step_done": "kind"}
    lines = [line for name in names for line in events(run_dir, name)]
    lines.sort(key=lambda line: line["t_ns"])
    return [(line["step"], line[names[line["kind"]]]) for line in lines if line["step"] is not None]


def test_the_phases_of_each_step_are_told_in_their_order(job, run_dir):
    job.step(1)
    job.step(2)
    phases = ["data", "forward", "backward", "optimizer", "step_returned", "step_done"]
    assert told(run_dir) == [(step, phase) for step in (1, 2) for phase in phases] + [(3, "data")]


def test_a_step_after_a_checkpoint_phase_keeps_its_own_number(job, run_dir):
    job.step(1)
    chaos.agent.enter("checkpoint_commit", 1)
    job.step(2)
    phases = ["data", "checkpoint_commit", "forward", "backward", "optimizer", "step_returned", "step_done"]
    assert told(run_dir)[6:] == [
        *((1 if phase == "checkpoint_commit" else 2, phase) for phase in phases), (3, "data"),
    ]  # fmt: skip


def test_a_process_hooked_twice_tells_each_phase_once(job, run_dir):
    enter_rank(chaos.agent)  # a reentry: new model, new optimizer, the same process
    again = Job()
    chaos.agent.watch(again.model, again.optimizer, first_step=1)
    again.step(1)
    assert [phase for step, phase in told(run_dir) if step == 1 and phase != "data"] == [
        "forward", "backward", "optimizer", "step_returned", "step_done",
    ]  # fmt: skip


class Issued:
    """A collective that tells what was asked of it, and whether it was waited for."""

    def __init__(self):
        self.calls, self.waited = [], 0

    def all_reduce(self, tensor, op=None, group=None, async_op=False):
        self.calls.append((tuple(tensor.shape), async_op))
        return self if async_op else None

    def wait(self):
        self.waited += 1


@pytest.fixture
def issued(monkeypatch):
    issued = Issued()
    monkeypatch.setattr(dist, "all_reduce", issued.all_reduce)
    return issued


def test_in_collective_fires_when_the_collective_was_issued_and_not_waited_for(issued, job, run_dir):
    agent = chaos.agent._agent
    agent.orders.take(order(agent, step=2, phase="backward", point="in_collective"))
    job.reduce = lambda gradient: dist.all_reduce(gradient)
    job.step(1)
    assert issued.calls == [((1, 4), False)]  # an ordinary call stays as it is
    with pytest.raises(RuntimeError, match="nvrx-chaos: injected by"):
        job.step(2)
    assert issued.calls[1:] == [((1, 4), True)] and issued.waited == 0
    (fired,) = events(run_dir, "fault_fired")
    assert (fired["step"], fired["phase"], fired["point"]) == (2, "backward", "in_collective")


@pytest.mark.parametrize(
    "call, asynchronous",
    [
        (lambda gradient: dist.all_reduce(gradient), False),
        (lambda gradient: dist.all_reduce(gradient, None, None, False), False),
        (lambda gradient: dist.all_reduce(gradient, None, None, True), True),
        (lambda gradient: dist.all_reduce(tensor=gradient, async_op=True), True),
        (lambda gradient: dist.all_reduce(tensor=gradient, async_op=False), False),
    ],
    ids=["default", "positional", "positional_async", "keyword_async", "keyword"],
)
def test_the_caller_gets_what_it_asked_for_also_at_the_point(issued, job, monkeypatch, call, asynchronous):
    agent = chaos.agent._agent
    acted = []
    monkeypatch.setattr(agent.orders, "act_in_collective", lambda due: acted.append((due.order_id, issued.waited)))
    agent.orders.take(order(agent, step=1, phase="backward", point="in_collective"))
    results = []
    job.reduce = lambda gradient: results.append(call(gradient))
    job.step(1)
    assert acted == [("o1", 0)] and issued.calls == [((1, 4), True)]
    assert results == ([issued] if asynchronous else [None]) and issued.waited == (0 if asynchronous else 1)


def test_a_real_collective_gives_the_same_sum_with_an_order_waiting_elsewhere(job, run_dir):
    agent = chaos.agent._agent
    agent.orders.take(order(agent, step=9, phase="backward", point="in_collective"))
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    assert tensor.tolist() == [1.0, 1.0, 1.0] and events(run_dir, "fault_fired") == []


FSDP = """
import sys, torch, torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from chaos.agent.hooks import step as hooks

dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
seen = []

def noted(name, call):
    return lambda *args, **kw: (seen.append(name), call(*args, **kw))[1]

for name in hooks.COLLECTIVES:
    if hasattr(dist, name):
        setattr(dist, name, noted(name, getattr(dist, name)))
model = torch.nn.Linear(4, 4)
fully_shard(model, mesh=dist.init_device_mesh("cpu", (2,)))
model(torch.ones(2, 4)).sum().backward()
dist.destroy_process_group()
print(*seen)
"""


def test_fsdp_communicates_through_the_entry_points_that_are_hooked():
    """Where another torch moves them, `in_collective` would never come: this test says so first."""
    ran = subprocess.run([sys.executable, "-c", FSDP], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    seen = ran.stdout.split()
    assert seen[0].startswith("all_gather") and seen[-1].startswith("reduce_scatter"), seen


def test_a_forward_inside_the_compiler_is_not_told(job, run_dir, monkeypatch):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    job.model(torch.ones(2, 4))
    assert [phase for _, phase in told(run_dir)] == ["data"]


def test_the_root_gathers_its_parameters_inside_the_forward(run_dir, group, unhooked):
    """Our hook comes before FSDP's, which was there first."""
    enter_rank(chaos.agent)
    job, order_of = Job(), []
    job.model.register_forward_pre_hook(lambda *_: order_of.append(chaos.agent._agent.phase))
    chaos.agent.watch(job.model, job.optimizer, first_step=1)
    job.model(torch.ones(2, 4))
    assert order_of == ["forward"]
