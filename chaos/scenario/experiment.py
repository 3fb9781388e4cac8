"""A plan → the Chaos Toolkit experiment that carries it. Names activities of `chaos.toolkit`, imports none.

The whole plan stands once, under `configuration.plan`; activities name a fault at most. Chaos Toolkit only puts
them in order: it decides nothing.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from chaos.model.plan import Plan

STEADY_OR_PASSED = ("chaos.toolkit.probes", "steady_or_passed")
ARM = ("chaos.toolkit.actions", "arm")
CONCLUDE = ("chaos.toolkit.actions", "conclude")
UNDO_ALL = ("chaos.toolkit.actions", "undo_all")
ACTIVITIES = (STEADY_OR_PASSED, ARM, CONCLUDE, UNDO_ALL)


def experiment(plan: Plan, run_dir_hint: str) -> dict[str, Any]:
    """Plain values, ready for `experiment.json`. `run_dir_hint` is the run's folder as the runner is told it."""
    title = plan.title or plan.scenario
    method = [_activity("action", f"arm {fault.name}", ARM, {"fault": fault.name}) for fault in plan.faults]
    method.append(_activity("action", "conclude", CONCLUDE))
    return {
        "title": title,
        "description": plan.why or title,
        "tags": list(plan.tags),
        "configuration": {"plan": _plain(plan), "run_dir": run_dir_hint},
        "steady-state-hypothesis": {
            "title": "the job is steady; in the end, the run has passed",
            "probes": [{**_activity("probe", "steady or passed", STEADY_OR_PASSED), "tolerance": True}],
        },
        "method": method,
        "rollbacks": [_activity("action", "undo all", UNDO_ALL)],
        "runtime": {"rollbacks": {"strategy": "always"}},
    }


def _plain(plan: Plan) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(plan)
    # Chaos Toolkit takes a configuration value with a key `type` for an instruction and replaces it.
    assert "type" not in plain, "a plan must have no top-level key called type"
    return plain


def _activity(kind: str, name: str, where: tuple[str, str], arguments: dict[str, str] | None = None) -> dict[str, Any]:
    module, function = where
    provider: dict[str, Any] = {"type": "python", "module": module, "func": function}
    if arguments:
        # Values in ${...} would be substituted; fault names cannot hold one.
        assert all(re.fullmatch(r"[A-Za-z0-9_-]+", value) for value in arguments.values())
        provider["arguments"] = arguments
    return {"type": kind, "name": name, "provider": provider}
