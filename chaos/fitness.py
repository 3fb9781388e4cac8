"""What this host can do: for `doctor`, and before a run is started. Looks only."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from chaos.doors import Offers
from chaos.faults.catalogue import BY_NAME, CATALOGUE
from chaos.model.plan import Plan

NVRX_OLDEST = (0, 4, 1)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing looked at. `remedy` is the next step where it is not fit."""

    name: str
    fit: bool
    detail: str
    remedy: str = ""


def host_findings() -> list[Finding]:
    """What every run needs."""
    return [_proc(), _pidfd(), _package("torch"), _nvrx(), _package("chaostoolkit-lib")]


def source_findings(offers: Offers) -> list[Finding]:
    """Sources of evidence. A run goes on without any of them; what rests on one that is missing may be unknown."""
    return [
        _exit_status(offers),
        _offered("pidfd info", offers.pidfd_info, "tells how any process ended", "use Linux 6.15 or newer"),
        _offered(
            "process connector", offers.connector, "tells of every process, however short-lived, and how it ended",
            "run as root (CAP_NET_ADMIN) in the host's own network and pid namespaces",
        ),
        _offered(
            "run delay", offers.run_delay, "tells how long a rank waited for a CPU: noise can be excused",
            "use a kernel built with CONFIG_SCHED_INFO; without it noise excuses nothing",
        ),
        _offered(
            "OOM kills", offers.oom_kills, "counted in /proc/vmstat",
            "use Linux 4.13 or newer; without it a rank that the kernel killed looks like the job's own failure",
        ),
        _cgroup(offers),
        _stacks(),
    ]  # fmt: skip


def fault_findings() -> list[Finding]:
    """One line a fault of the catalogue: can it be injected here?"""
    lines = []
    for fault in CATALOGUE:
        lacking = _lacking(fault.needs)
        remedy = "; ".join(finding.remedy for finding in lacking if finding.remedy)
        detail = "; ".join(finding.detail for finding in lacking) or f"{fault.fidelity}: {fault.summary}"
        lines.append(Finding(name=fault.name, fit=not lacking, detail=detail, remedy=remedy))
    return lines


def refusal(plan: Plan) -> Finding | None:
    """Why this plan may not start here, or None."""
    for fault in plan.faults:
        for finding in _lacking(BY_NAME[fault.fault].needs):
            return Finding(
                name=fault.name,
                fit=False,
                detail=f"{fault.fault} cannot act here: {finding.detail}",
                remedy=finding.remedy,
            )
    needed: list[Finding] = [_proc()]
    if plan.job.run is not None:
        needed += [_package("torch"), _nvrx()]
    return next((finding for finding in needed if not finding.fit), None)


def _lacking(needs: tuple[str, ...]) -> list[Finding]:
    return [finding for need in needs if not (finding := _NEEDS[need]()).fit]


def _proc() -> Finding:
    readable = Path("/proc/self/stat").exists()
    detail = "the process table can be read" if readable else "/proc is not mounted"
    return Finding(
        name="process table", fit=readable, detail=detail, remedy="" if readable else "mount -t proc proc /proc"
    )


def _pidfd() -> Finding:
    try:
        handle = os.pidfd_open(os.getpid())
        try:
            signal.pidfd_send_signal(handle, 0)
        finally:
            os.close(handle)
    except OSError as error:
        return Finding(
            name="pidfd",
            fit=False,
            detail=f"no pidfd: {error.strerror}; a signal could reach the wrong process",
            remedy="use Linux 5.3 or newer; in a container, allow pidfd_open and pidfd_send_signal (seccomp)",
        )
    return Finding(name="pidfd", fit=True, detail="signals go to exactly one process")


def _package(name: str) -> Finding:
    try:
        return Finding(name=name, fit=True, detail=version(name))
    except PackageNotFoundError:
        return Finding(name=name, fit=False, detail="not installed", remedy=f"pip install {name}")


def _nvrx() -> Finding:
    finding = _package("nvidia-resiliency-ext")
    if not finding.fit:
        return finding
    parts = tuple(int(part) for part in finding.detail.split(".")[:3] if part.isdigit())
    if parts < NVRX_OLDEST:
        return Finding(
            name=finding.name,
            fit=False,
            detail=f"{finding.detail} is older than 0.4.1",
            remedy="pip install 'nvidia-resiliency-ext>=0.4.1'",
        )
    return finding


def _exit_status(offers: Offers) -> Finding:
    """Either source is enough."""
    if not offers.pidfd_info or not offers.connector:
        return Finding(name="exit status", fit=True, detail="of every process of a job, also of those not our children")
    return Finding(
        name="exit status",
        fit=False,
        detail="of our own children only: a kill of a rank rests on the launcher's record, or is unconfirmed (unknown)",
        remedy="use Linux 6.15 or newer, or run as root in the host's own namespaces",
    )


def _offered(name: str, why_not: str, detail: str, remedy: str) -> Finding:
    if why_not:
        return Finding(name=name, fit=False, detail=why_not, remedy=remedy)
    return Finding(name=name, fit=True, detail=detail)


def _cgroup(offers: Offers) -> Finding:
    if offers.cgroup:
        return Finding(
            name="memory cgroup", fit=True, detail=f"{offers.cgroup}: memory of a job in a cgroup of its own"
        )
    return Finding(
        name="memory cgroup",
        fit=False,
        detail="none is mounted: memory is told for each rank only",
        remedy="mount -t cgroup2 none /sys/fs/cgroup, with its memory controller enabled",
    )


def _stacks() -> Finding:
    finding = _package("py-spy")
    if finding.fit:
        return Finding(name="stacks", fit=True, detail=f"py-spy {finding.detail}")
    detail = "stacks of ranks that are stopped, or have no agent, are not kept"
    return Finding(name="stacks", fit=False, detail=detail, remedy="pip install 'nvrx-chaos[stacks]'")


def _agent() -> Finding:
    """The agent needs nothing of the host; a job that does not speak to it is noticed when nothing fires."""
    return Finding(name="agent", fit=True, detail="the agent is part of this package")


_NEEDS: dict[str, Callable[[], Finding]] = {"agent": _agent, "proc": _proc, "pidfd": _pidfd}
