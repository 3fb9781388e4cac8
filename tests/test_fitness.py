"""What this host can do, and why a plan may not start on it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from types import SimpleNamespace

import pytest

from chaos import fitness
from chaos.faults.catalogue import CATALOGUE
from chaos.model.plan import At, FaultPlan, JobPlan, Plan


def plan(fault="process.kill", run="trainer", command=None):
    params = {"signal": "KILL"} if fault == "process.kill" else {}
    one = FaultPlan(name="f", fault=fault, params=params, ranks=(1,), at=At(step=5))
    return Plan(scenario="s", job=JobPlan(run=run, command=command), faults=(one,))


@pytest.fixture
def without(monkeypatch):
    """Takes something from this host."""

    def without(name):
        if name == "pidfd_open":
            monkeypatch.setattr(fitness.os, "pidfd_open", refuse)
        elif name == "pidfd_send_signal":
            monkeypatch.setattr(fitness.signal, "pidfd_send_signal", refuse)
        else:
            installed = fitness.version
            monkeypatch.setattr(fitness, "version", lambda package: missing(package, name, installed))

    return without


def refuse(*_):
    raise OSError(38, "Function not implemented")


def missing(package, name, installed):
    if package == name:
        raise PackageNotFoundError(package)
    return installed(package)


def finding(name, findings):
    return next(each for each in findings if each.name == name)


def test_here_every_fault_can_be_injected_and_each_plan_may_start():
    assert [each.name for each in fitness.fault_findings()] == [fault.name for fault in CATALOGUE]
    assert all(each.fit for each in fitness.fault_findings())
    assert [fitness.refusal(plan(fault.name)) for fault in CATALOGUE] == [None] * len(CATALOGUE)


def test_every_need_of_a_fault_can_be_looked_at():
    assert {need for fault in CATALOGUE for need in fault.needs} <= set(fitness._NEEDS)


def test_what_is_not_fit_names_its_remedy(without):
    for name in ("pidfd_open", "torch", "py-spy"):
        without(name)
    unfit = [each for each in (*fitness.host_findings(), *fitness.source_findings(offers())) if not each.fit]
    assert {"pidfd", "torch", "stacks"} <= {each.name for each in unfit} and all(each.remedy for each in unfit)


@pytest.mark.parametrize("call", ["pidfd_open", "pidfd_send_signal"])
def test_without_exact_signals_a_fault_that_sends_one_is_refused_with_reason_and_remedy(without, call):
    without(call)
    refused = fitness.refusal(plan("process.hang"))
    assert refused is not None and "process.hang cannot act here" in refused.detail and "Linux 5.3" in refused.remedy
    assert fitness.refusal(plan("process.exception")) is None
    assert not finding("process.kill", fitness.fault_findings()).fit


@pytest.mark.parametrize("package", ["torch", "nvidia-resiliency-ext"])
def test_the_shipped_trainer_needs_torch_and_nvrx_a_users_own_job_may_bring_its_own(without, package):
    without(package)
    refused = fitness.refusal(plan())
    assert refused is not None and refused.name == package and f"pip install {package}" in refused.remedy
    assert fitness.refusal(plan(run=None, command=("python", "train.py"))) is None


@pytest.mark.parametrize(
    "version, fit",
    [("0.3.0", False), ("0.4.0", False), ("0.4.1", True), ("0.4.1.post1", True), ("0.10.0", True), ("1.0", True)],
)
def test_an_nvrx_that_is_too_old_is_refused(monkeypatch, version, fit):
    monkeypatch.setattr(fitness, "version", lambda package: version)
    assert finding("nvidia-resiliency-ext", fitness.host_findings()).fit is fit


def offers(**lacking):
    fields = {"pidfd_info": "", "connector": "", "run_delay": "", "oom_kills": "", "cgroup": "v2", **lacking}
    return SimpleNamespace(**fields)


def test_a_host_that_offers_all_sources_is_fit_for_each():
    assert all(each.fit and not each.remedy for each in fitness.source_findings(offers()))


@pytest.mark.parametrize(
    "lacking, name",
    [
        ({"pidfd_info": "Linux 5.10"}, "pidfd info"), ({"connector": "not permitted"}, "process connector"),
        ({"run_delay": "not there"}, "run delay"), ({"oom_kills": "not counted"}, "OOM kills"),
        ({"cgroup": ""}, "memory cgroup"),
    ],
)  # fmt: skip
def test_a_source_that_is_missing_is_named_with_its_reason_and_remedy_and_no_other_is(lacking, name):
    (unfit,) = [each for each in fitness.source_findings(offers(**lacking)) if not each.fit]
    assert unfit.name == name and unfit.remedy
    assert all(why in unfit.detail for why in lacking.values())
    assert fitness.refusal(plan()) is None  # a run still runs: some of its checks may then be unknown


@pytest.mark.parametrize(
    "lacking, fit",
    [((), True), (("pidfd_info",), True), (("connector",), True), (("pidfd_info", "connector"), False)],
)
def test_how_strangers_ended_is_told_by_either_of_two_sources(lacking, fit):
    found = finding("exit status", fitness.source_findings(offers(**dict.fromkeys(lacking, "no"))))
    assert found.fit is fit and bool(found.remedy) is not fit
