"""House rules, kept by reading the code: which room imports which, and who may touch what."""

from __future__ import annotations

import ast
import inspect
import sys
from importlib import import_module
from pathlib import Path

import pytest

import chaos
from chaos.cli.main import COMMANDS
from chaos.model.plan import At, FaultPlan, JobPlan, Plan
from chaos.scenario.experiment import ACTIVITIES, experiment
from chaos.system.processes import ProcessTable

ROOT = Path(__file__).resolve().parents[1]

# Room -> what it may import, in the order of the rooms: every arrow points to a row above.
# BASE may be imported by every room below it.
BASE = {"errors", "clock", "files"}
ROOMS: dict[str, set[str]] = {
    "errors": set(),
    "clock": set(),
    "files": {"errors"},
    "model": {"errors"},
    "doors": {"model"},
    "triggers": {"model"},
    "history": {"model", "errors", "clock"},
    "agent": {"model", "errors", "clock", "triggers", "history"},
    "system": {"model", "errors", "clock", "doors"},
    "faults": {"model", "errors", "doors"},
    "scenario": {"model", "errors", "faults"},
    "guard": {"model", "errors", "clock", "doors", "system"},
    "jobs": {"model", "errors", "clock", "doors", "system", "guard", "history"},
    "injector": {"model", "errors", "clock", "doors", "triggers", "history", "faults", "guard"},
    "observer": {"model", "errors", "clock", "doors", "history"},
    "judge": {"model"},
    "report": {"model", "errors"},
    "conclude": {"model", "errors", "history", "judge", "report"},
    "controls": {"model", "errors", "scenario", "history"},
    "fitness": {"model", "errors", "doors", "faults"},
    "session": {
        "model", "errors", "clock", "doors", "system", "history", "guard", "jobs", "injector", "observer", "judge",
        "conclude", "fitness",
    },
    "toolkit": {"model", "errors", "faults", "session"},
    # chaoslib finds the toolkit by name; the runner asks it for the one session, whose end is the process's status.
    "runner": {"model", "errors", "clock", "toolkit"},
    "run": {
        "model", "errors", "clock", "scenario", "history", "report", "conclude", "controls", "fitness", "jobs",
    },
}  # fmt: skip
ROOMS["cli"] = set(ROOMS) - {"agent", "toolkit", "runner"}
PURE = {
    "errors",
    "clock",
    "files",
    "model",
    "doors",
    "triggers",
    "judge",
}  # not even BASE is open to these, but for their row

# Package -> the places that may import it.
BORDERS: dict[str, tuple[str, ...]] = {
    "chaoslib": ("chaos/runner.py", "chaos/toolkit/"),
    "torch": ("chaos/agent/verbs/", "chaos/agent/hooks/", "trainer/"),
    "psutil": ("chaos/system/",),
    "nvidia_resiliency_ext": ("trainer/resilience.py",),
}
HARMFUL = {
    "ProcessKiller", "PidfdKiller", "kill", "killpg", "pidfd_send_signal", "send_signal", "terminate", "raise_signal",
}  # fmt: skip
# What takes a lock in Python code, which an asynchronous exception would leave held.
LOCKING = {"Lock", "RLock", "Condition", "Semaphore", "Event", "Barrier", "Queue"}


def files(*folders):
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    assert found
    return found


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path):
    """Every module that the file imports, at its top or inside a function, for types or for real."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}: relative import"
            if node.module == "chaos":
                yield from (f"chaos.{alias.name}" for alias in node.names if alias.name != "__version__")
            else:
                yield node.module


def room_of(module):
    """The room of a dotted name of ours, or None."""
    parts = module.split(".")
    return parts[1] if parts[0] == "chaos" and len(parts) > 1 else None


def rooms_on_disk():
    entries = [path for path in (ROOT / "chaos").iterdir() if not path.name.startswith("_")]
    return {path.stem for path in entries if path.suffix == ".py" or (path / "__init__.py").is_file()}


def test_every_room_is_in_the_table_and_no_other():
    assert rooms_on_disk() == set(ROOMS)


def test_every_allowed_arrow_points_up():
    order = list(ROOMS)
    for room, allowed in ROOMS.items():
        below = {other for other in allowed if order.index(other) >= order.index(room)}
        assert below == set(), f"{room} may not import {below}"


@pytest.mark.parametrize("room", list(ROOMS))
def test_a_room_imports_only_what_its_row_names(room):
    allowed = ROOMS[room] | {room} | (set() if room in PURE else BASE)
    wrong = []
    for path in [*(ROOT / "chaos").glob(f"{room}.py"), *(ROOT / "chaos" / room).rglob("*.py")]:
        wrong += [f"{name_of(path)} imports {name}" for name in imports(path) if (room_of(name) or room) not in allowed]
    assert wrong == []


@pytest.mark.parametrize("package", BORDERS)
def test_a_border_package_is_imported_only_at_its_border(package):
    wrong = [
        name_of(path)
        for path in files("chaos", "trainer")
        if package in {name.split(".")[0] for name in imports(path)} and not name_of(path).startswith(BORDERS[package])
    ]
    assert wrong == []


def test_the_package_itself_imports_nothing_of_ours_at_its_top():
    assert [name for name in imports(ROOT / "chaos" / "__init__.py") if name.startswith("chaos")] == []


def test_the_trainer_knows_the_agent_only_and_in_one_file_only():
    uses = {(name_of(path), name) for path in files("trainer") for name in imports(path) if name.startswith("chaos")}
    assert uses == {("trainer/progress.py", "chaos.agent")}


def test_what_ranks_load_of_the_history_and_model_is_the_standard_library():
    for name in ("history/writer.py", "model/events.py", "model/orders.py", "triggers.py"):
        others = {each.split(".")[0] for each in imports(ROOT / "chaos" / name)} - {"chaos"}
        assert others <= sys.stdlib_module_names, name


def test_the_agent_takes_no_lock_and_catches_no_exception_of_nvrx():
    for path in files("chaos/agent"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ExceptHandler):
                caught = ast.unparse(node.type) if node.type is not None else "everything"
                assert "BaseException" not in caught and caught != "everything", f"{name_of(path)}:{node.lineno}"
            names = getattr(node, "attr", getattr(node, "id", ""))
            assert names not in LOCKING, f"{name_of(path)}:{node.lineno}"


def test_the_observer_never_holds_a_harmful_door():
    for path in files("chaos/observer"):
        for node in ast.walk(tree(path)):
            aliases = [alias.name for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
            used = {getattr(node, "attr", None), getattr(node, "id", None), *aliases}
            assert not used & HARMFUL, f"{name_of(path)}:{getattr(node, 'lineno', 0)} uses {used & HARMFUL}"


def test_the_door_that_the_observer_is_handed_can_only_look():
    offered = {name for name in dir(ProcessTable) if not name.startswith("_")}
    assert offered & (HARMFUL | {"send", "resume"}) == set()


def test_the_judge_opens_no_file_and_reads_no_clock():
    for path in files("chaos/judge"):
        taken = {name.split(".")[0] for name in imports(path)} & {"os", "time", "pathlib", "subprocess", "socket", "io"}
        assert taken == set(), f"{name_of(path)} imports {taken}"
        calls = {
            node.func.id for node in ast.walk(tree(path)) if isinstance(node, ast.Call) and hasattr(node.func, "id")
        }
        assert "open" not in calls, name_of(path)


FAULT = FaultPlan(name="kill", fault="process.kill", params={"signal": "KILL"}, ranks=(1,), at=At(step=5))


def activities():
    """Every activity of an experiment that a scenario can become."""
    written = experiment(Plan(scenario="s", job=JobPlan(run="trainer"), faults=(FAULT,)), "run")
    parts = [written["steady-state-hypothesis"]["probes"], written["method"], written["rollbacks"]]
    return [activity["provider"] for part in parts for activity in part]


def test_an_experiment_names_nothing_but_the_listed_activities():
    assert {(each["module"], each["func"]) for each in activities()} == set(ACTIVITIES)


def test_every_name_that_a_scenario_can_write_resolves_and_takes_its_arguments():
    for each in activities():
        function = getattr(import_module(each["module"]), each["func"])
        inspect.signature(function).bind(**each.get("arguments", {}), configuration={})


def test_the_names_of_the_package_resolve():
    for name in chaos.__all__:
        assert getattr(chaos, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'load_scenari'"):
        _ = chaos.load_scenari


def test_every_command_of_the_table_has_its_file_and_every_file_its_command():
    found = {path.stem for path in files("chaos/cli")} - {"__init__", "main"}
    assert found == set(COMMANDS)
    assert all(import_module(f"chaos.cli.{name}").command for name in COMMANDS)
