"""Bad input: each kind gives the message that is kept in `golden_errors.txt`. UPDATE_GOLDEN=1 rewrites that file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from scenario_build import KNOWN, SHORTEST, WHOLE, edited, load_text

from chaos.errors import ScenarioInvalid

GOLDEN = Path(__file__).parent / "golden_errors.txt"
BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdef", "bcdefg", strict=True)
)


def shortest(*changes):
    return edited(SHORTEST, *changes)


def whole(*changes):
    return edited(WHOLE, *changes)


def known(*changes):
    return SHORTEST + edited(KNOWN, *changes)


AT = "at: {step: 47}"
CASES = {
    # the text itself
    "empty file": "",
    "only a comment": "# nothing\n",
    "not UTF-8": b"schema: nvrx-chaos/scenario/1\nname: \xff\n",
    "too large": SHORTEST + "# " + "x" * 140_000,
    "unclosed bracket": shortest(("[in_job]", "[in_job")),
    "two colons": "schema: a: b\n",
    "tab": shortest(("job: {run", "job:\n\t{run")),
    "duplicate key": SHORTEST + "name: again\n",
    "duplicate key inside": shortest(("{step: 47}", "{step: 47, step: 48}")),
    "second document": SHORTEST + "---\na: 1\n",
    "alias bomb": BOMB,
    "alias to itself": "a: &a [*a]\n",
    "unknown alias": "a: *b\n",
    "too deep": "[" * 100,
    "tag": shortest(("kill-any-worker", "!secret x")),
    "merge key": SHORTEST + "<<: {title: x}\n",
    "key that is a list": SHORTEST + "? [a, b]\n: 1\n",
    "old YAML asked for": "%YAML 1.1\n---\n" + SHORTEST,
    "control character": shortest(("kill-any-worker", "a\x00b")),
    "a list": "- a\n- b\n",
    "a word": "hello\n",
    # what it says it is
    "no schema": shortest(("schema: nvrx-chaos/scenario/1\n", "")),
    "schema misspelt": shortest(("scenario/1", "scenaro/1")),
    "newer schema": shortest(("scenario/1", "scenario/2")),
    "suite": shortest(("scenario/1", "suite/1")),
    # fields and values
    "unknown field": SHORTEST + "objectives: {}\n",
    "unknown field inside": shortest(("recovery: [in_job]", "recvery: [in_job]")),
    "several at once": shortest(("47", "47, phase: bakward"), ("signal: KILL", "signal: KIL"), ("8s", "8")),
    "no job": shortest(("job: {run: trainer, recovery: [in_job]}\n", "")),
    "no name": shortest(("name: kill-any-worker\n", "")),
    "name with capitals": shortest(("kill-any-worker", "Kill Worker")),
    "name is a number": shortest(("kill-any-worker", "17")),
    "empty value": shortest(("kill-any-worker", "")),
    "mapping expected": shortest(("{recovered_by: in_job, recovery_time: 8s}", "fast")),
    "list expected": shortest(("[in_job]", "in_job")),
    "title of two lines": SHORTEST + 'title: "a\\nb"\n',
    "text that is a number": shortest(("recovery: [in_job]", "recovery: [in_job], env: {A: 1}")),
    "number in words": shortest(("recovery: [in_job]", "recovery: [in_job], steps: many")),
    "truth for a number": shortest(("recovery: [in_job]", "recovery: [in_job], steps: true")),
    "not a number": whole(("step_time_ratio: 2", "step_time_ratio: .nan")),
    "duration without unit": shortest(("8s", "8")),
    "duration in hours": shortest(("8s", "1h")),
    "duration of nothing": shortest(("8s", "0s")),
    "duration below nothing": shortest(("8s", "-8s")),
    # the job
    "neither run nor command": shortest(("run: trainer, ", "")),
    "run and command": shortest(("run: trainer", "run: trainer, command: [python, x.py]")),
    "command as one text": shortest(("run: trainer", "command: python x.py")),
    "empty command": shortest(("run: trainer", "command: []")),
    "args of a command": shortest(("run: trainer", "command: [a], args: {b: 1}")),
    "unknown job": shortest(("run: trainer", "run: trianer")),
    "attach": shortest(("run: trainer", "attach: {pid: 7}")),
    "launcher of later": shortest(("run: trainer", "run: trainer, launcher: torchrun")),
    "where of later": shortest(("run: trainer", "run: trainer, where: slurm")),
    "two nodes": shortest(("run: trainer", "run: trainer, nodes: 2")),
    "no ranks": shortest(("run: trainer", "run: trainer, ranks_per_node: 0")),
    "layer twice": shortest(("[in_job]", "[in_job, in_job]")),
    "unknown layer": shortest(("[in_job]", "[in_jobs]")),
    "negative steps": shortest(("run: trainer", "run: trainer, steps: -1")),
    "too few steps": shortest(("run: trainer", "run: trainer, steps: 19"), ("47", "9")),
    "steps in args": shortest(("run: trainer", "run: trainer, args: {steps: 5}")),
    "list in args": shortest(("run: trainer", "run: trainer, args: {lr: [1]}")),
    "no checkpoints": shortest(("run: trainer", "run: trainer, args: {checkpoint_every: 0}")),
    "variable of ours": shortest(("run: trainer", "run: trainer, env: {NVRX_CHAOS_RUN: x}")),
    "variable without a name": shortest(("run: trainer", "run: trainer, env: {a-b: x}")),
    "zero byte in an argument": shortest(("run: trainer", 'run: trainer, args: {data: "a\\0b"}')),
    "zero byte in a variable": shortest(("run: trainer", 'run: trainer, env: {A: "\\0"}')),
    "zero byte in a command": shortest(("run: trainer", 'command: [a, "b\\0"]')),
    "steady in no steps": SHORTEST + "steady_state: {steps: 0}\n",
    # the faults
    "unknown fault": shortest(("process.kill", "proces.kil")),
    "fault of no kind we have": shortest(("process.kill", "network.partition")),
    "unknown parameter": shortest(("{signal: KILL}", "{signl: KILL}")),
    "parameter of a fault without any": whole(("fault: process.hang", "fault: process.hang\n    params: {x: 1}")),
    "unknown signal": shortest(("signal: KILL", "signal: STOP")),
    "signal as a number": shortest(("signal: KILL", "signal: 9")),
    "unknown exception": shortest(("process.kill, params: {signal: KILL}", "process.exception, params: {type: Exit}")),
    "no moment": shortest((f", {AT}", "")),
    "empty moment": shortest((AT, "at: {}")),
    "two moments": shortest((AT, "at: {step: 47, after: 5s}")),
    "every": shortest((AT, "at: {every: 30s}")),
    "mtbf": shortest((AT, "at: {mtbf: 60s}")),
    "unknown phase": shortest((AT, "at: {step: 47, phase: bakward}")),
    "phase without a step": shortest((AT, "at: {after: 5s, phase: backward}")),
    "phase of no step": shortest((AT, "at: {step: 47, phase: rendezvous}")),
    "unknown point": shortest((AT, "at: {step: 47, point: entri}")),
    "point of commits elsewhere": shortest((AT, "at: {step: 47, phase: backward, point: before_rename}")),
    "no collective there": shortest((AT, "at: {step: 47, phase: data, point: in_collective}")),
    "unknown event": shortest((AT, "at: {event: restart_enterd}")),
    "event of ours": shortest((AT, "at: {event: fault_fired}")),
    "past the end": shortest((AT, "at: {step: 120}")),
    "too near the end": shortest((AT, "at: {step: 101}")),
    "too early": shortest((AT, "at: {step: 9}")),
    "negative step": shortest((AT, "at: {step: -1}")),
    "no such rank": shortest((AT, f"target: {{rank: 2}}, {AT}")),
    "negative rank": shortest((AT, f"target: {{rank: -1}}, {AT}")),
    "rank and ranks": shortest((AT, f"target: {{rank: 0, ranks: [1]}}, {AT}")),
    "rank twice": shortest((AT, f"target: {{ranks: [1, 1]}}, {AT}")),
    "no ranks in a list": shortest((AT, f"target: {{ranks: []}}, {AT}")),
    "target misspelt": shortest((AT, f"target: al, {AT}")),
    "role": shortest((AT, f"target: {{role: launcher}}, {AT}")),
    "a kill that lasts": shortest((AT, f"{AT}, lasts: 5s")),
    "two faults of one name": whole(("name: hang", "name: kill")),
    "more down than allowed": shortest((AT, f"target: all, {AT}")),
    "two down at one step": whole(("step: 77", "step: 57")),
    "more faults than allowed": whole(("faults: 2", "faults: 1")),
    # the objective
    "no recovery time": shortest((", recovery_time: 8s", "")),
    "layer not switched on": shortest(("recovered_by: in_job", "recovered_by: in_process")),
    "unknown recovery": shortest(("recovered_by: in_job", "recovered_by: in_jb")),
    "none and another": shortest(("recovered_by: in_job", "recovered_by: [none, in_job]")),
    "recovery without a fault": shortest((SHORTEST.splitlines()[3] + "\n", "")),
    "clock not said": whole(("  clock_from: fired\n", "")),
    "clock from an undo that never comes": shortest(("recovery_time: 8s", "recovery_time: 8s, clock_from: undone")),
    "detection slower than recovery": shortest(("recovery_time: 8s", "recovery_time: 8s, detection_time: 9s")),
    "full recovery faster than recovery": whole(("full_recovery_time: 20s", "full_recovery_time: 7s")),
    "no restart allowed": shortest(("recovery_time: 8s", "recovery_time: 8s, restarts: {in_job: 0}")),
    "unknown part": whole(("parts: {rendezvous: 3s}", "parts: {rendesvous: 3s}")),
    "shrunk without shrink": whole(("world_size: same", "world_size: shrunk")),
    "state misspelt": whole(("state: {close: 0.001}", "state: exct")),
    "state too close": whole(("close: 0.001", "close: 0")),
    "core check dropped": whole(("drop: [no_residue]", "drop: [fault_took_effect]")),
    "unknown check": whole(("drop: [no_residue]", "drop: [no_residu]")),
    "check without its objective": shortest(("8s}", "8s, checks: {add: [restart_budget]}}")),
    "blamed": shortest(("8s}", "8s, blamed: any}")),
    "blame asked and not held to": shortest(("8s}", "8s, checks: {add: [blamed_right]}}")),
    "memory without a unit": shortest(("8s}", "8s, memory_growth: 16}")),
    "memory with a unit of time": shortest(("8s}", "8s, memory_growth: 16ms}")),
    "memory of nothing": shortest(("8s}", "8s, memory_growth: 0MiB}")),
    "memory without restarts inside processes": shortest(("8s}", "8s, memory_growth: 16MiB}")),
    "memory over too few restarts": whole(("step_time_ratio: 2", "memory_growth: 16MiB")),
    # limits, and the rest
    "timeout too short": SHORTEST + "limits: {timeout: 8s}\n",
    "hold longer than the run": whole(("lasts: 5s", "lasts: 2m")),
    "nodes down": SHORTEST + "limits: {nodes_down: 1}\n",
    "no ranks down": SHORTEST + "limits: {ranks_down: 0}\n",
    "stop_when": SHORTEST + "limits: {stop_when: x}\n",
    # failures that are foreseen
    "expected failure misspelt": SHORTEST + "expect_failed: [lost_wrk]\n",
    "expected failure as a word": SHORTEST + "expect_failed: lost_work\n",
    "expected failure of what a pass rests on": SHORTEST + "expect_failed: [lost_work, undone]\n",
    "expected failure twice": SHORTEST + "expect_failed: [lost_work, lost_work]\n",
    "expected failure that is dropped": WHOLE + "expect_failed: [no_residue]\n",
    "expected failure without its objective": SHORTEST + "expect_failed: [restart_budget]\n",
    "known and nothing said": SHORTEST + "known: {}\n",
    "known misspelt": known(("lost_work", "lost_wrk")),
    "known of no check": known(("[lost_work]", "[]")),
    "known of what a pass rests on": known(("lost_work", "fault_took_effect")),
    "known and expected": known() + "expect_failed: [lost_work]\n",
    "known of no version": known(('{nvrx: ">=0.4.1"}', "{}")),
    "known of an unknown package": known(("nvrx", "nvxr")),
    "version without a condition": known((">=0.4.1", "0.4.1")),
    "version as a number": known(('">=0.4.1"', "0.4")),
    "condition without a version": known((">=0.4.1", ">=")),
    "condition of nothing": known((">=0.4.1", " ")),
    "page that is none": known(("https://example.org/issues/7", "issue 7")),
    "page of another kind": known(("https://", "file://")),
    "page of this host": known(("https://example.org", "http://localhost")),
    "page with a password": known(("https://", "https://me:secret@")),
    "no such day": known(("2027-03-01", "2027-02-30")),
    "day in another order": known(("2027-03-01", "01.03.2027")),
    "year for a day": known(("2027-03-01", "2027")),
    # several runs of one file
    "vary is a list": SHORTEST + "vary: [1]\n",
    "vary without values": SHORTEST + "vary: {target.rank: []}\n",
    "vary of one value": SHORTEST + "vary: {target.rank: 1}\n",
    "vary of an unknown key": SHORTEST + "vary: {taget.rank: [0, 1]}\n",
    "vary of an unknown field": SHORTEST + "vary: {at.phse: [forward]}\n",
    "vary to a bad value": SHORTEST + "vary: {target.rank: [1, 2]}\n",
    "vary the same twice": SHORTEST + "vary: {target.rank: [1, 1]}\n",
    "vary one field by two keys": SHORTEST + "vary: {target.rank: [0, 1], target: [any]}\n",
    "vary of which fault": WHOLE + "vary: {target.rank: [0, 1]}\n",
    "vary of no such fault": WHOLE + "vary: {faults.kil.target.rank: [0, 1]}\n",
    "vary through a number": SHORTEST + "vary: {job.recovery.x: [0]}\n",
    "vary too much": SHORTEST + f"vary: {{job.args.seed: {list(range(15))}, job.args.x: {list(range(15))}}}\n",
}


def message_of(tmp_path, text):
    with pytest.raises(ScenarioInvalid) as caught:
        load_text(tmp_path, text)
    return str(caught.value).replace(f"{tmp_path}/", "")


def golden():
    blocks = GOLDEN.read_text().split("\n## ") if GOLDEN.exists() else []
    return {head: body.strip("\n") for head, _, body in (block.partition("\n") for block in blocks[1:])}


@pytest.fixture(scope="module", autouse=True)
def rewrite_golden(tmp_path_factory):
    if os.environ.get("UPDATE_GOLDEN"):
        folder = tmp_path_factory.mktemp("golden")
        blocks = [f"## {name}\n{message_of(folder, text)}\n" for name, text in CASES.items()]
        GOLDEN.write_text("What a user reads for each kind of bad input.\n\n" + "\n".join(blocks))


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_answered_with_file_field_and_what_is_allowed(name, tmp_path):
    assert message_of(tmp_path, CASES[name]) == golden()[name]


def test_the_golden_file_holds_no_case_that_is_gone():
    assert list(golden()) == list(CASES)


def test_every_message_names_the_file_and_nearly_every_one_the_line(tmp_path):
    without_line = [line for body in golden().values() for line in body.splitlines() if not line.startswith("x.yaml:")]
    assert without_line == []
    unplaced = {name for name, body in golden().items() if not body.partition("x.yaml:")[2][:1].isdigit()}
    assert unplaced == {"too large"}


def test_many_problems_are_cut_to_a_screenful(tmp_path):
    text = SHORTEST + "".join(f"field{number}: 1\n" for number in range(50))
    lines = message_of(tmp_path, text).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "... and 30 more"


@pytest.mark.parametrize("kind", ["folder", "missing", "pipe"])
def test_a_file_that_cannot_be_read_says_so(kind, tmp_path):
    from chaos.scenario.load import load_path

    path = tmp_path / "odd.yaml"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(ScenarioInvalid, match=r"odd\.yaml: cannot be read: "):
        load_path(path)


SETS = {
    "job.stps=3": "--set job.stps=3: job.stps: unknown field; allowed: run, command, launcher, where, nodes, ",
    "nothing": "--set nothing: found no KEY=VALUE; write it like --set target.rank=1",
    "=3": "--set =3: found no KEY=VALUE",
    "x=1": "--set x=1: x: unknown key; it starts with one of: ",
    "name=x": "--set name=x: name: unknown key",
    "vary=x": "--set vary=x: vary: unknown key",
    "job.=1": "--set job.=1: job.: found a key with an empty part",
    "target=[": '--set target=[: target: found "["; allowed: a value as it would stand in the file',
    "job.steps=": '--set job.steps=: job.steps: found ""; allowed: a value',
    "faults.3.at.step=50": "--set faults.3.at.step=50: faults.3.at.step: no such fault; faults here: process",
    "faults=[]": "--set faults=[]: faults: names a whole list",
    "target.rank=7": "--set target.rank=7: faults[0].target.rank: found 7; the job has 2 rank(s); allowed: 0 to 1",
    "at.step=119": "--set at.step=119: faults[0].at.step: found 119, too near the end; allowed: at most 100",
}


@pytest.mark.parametrize("option", SETS)
def test_a_bad_set_option_is_named_as_it_was_typed(option, tmp_path):
    with pytest.raises(ScenarioInvalid) as caught:
        load_text(tmp_path, SHORTEST, option)
    assert str(caught.value).startswith(SETS[option])


def test_bad_defaults_are_named_by_their_own_file(tmp_path):
    (tmp_path / "defaults.yaml").write_text("job:\n  stps: 5\nfaults: []\n")
    with pytest.raises(ScenarioInvalid) as caught:
        load_text(tmp_path, SHORTEST)
    lines = str(caught.value).replace(f"{tmp_path}/", "").splitlines()
    assert lines[0].startswith("defaults.yaml:2: job.stps: unknown field")
    assert lines[1].startswith("defaults.yaml:3: faults: unknown field")


def test_a_default_that_clashes_with_the_file_is_named_by_its_own_line(tmp_path):
    (tmp_path / "defaults.yaml").write_text("job:\n  args: {checkpoint_every: 20}\n  steps: 50\n")
    with pytest.raises(ScenarioInvalid) as caught:
        load_text(tmp_path, SHORTEST)
    assert "x.yaml:4: faults[0].at.step: found 47, too near the end; allowed: at most 30" in str(caught.value)
