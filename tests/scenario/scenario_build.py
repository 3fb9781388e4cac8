"""Small builders for the scenario room's tests: a valid file, and edits of it."""

from __future__ import annotations

from chaos.scenario.load import load_path

SHORTEST = """\
schema: nvrx-chaos/scenario/1
name: kill-any-worker
job: {run: trainer, recovery: [in_job]}
faults: [{fault: process.kill, params: {signal: KILL}, at: {step: 47}}]
objective: {recovered_by: in_job, recovery_time: 8s}
"""

WHOLE = """\
schema: nvrx-chaos/scenario/1
name: kill-worker
title: A worker is SIGKILLed while gradients are reduced
why: incidents I04, I28
tags: [quick, kill]
job:
  run: trainer
  launcher: ft_launcher
  where: local
  nodes: 1
  ranks_per_node: 2
  recovery: [in_process, in_job]
  shrink: false
  steps: 120
  env: {OMP_NUM_THREADS: "1"}
  args: {checkpoint_every: 20, seed: 0}
steady_state: {steps: 10}
faults:
  - name: kill
    fault: process.kill
    params: {signal: KILL}
    target: {rank: 1}
    at: {step: 57, phase: backward, point: in_collective}
  - name: hang
    fault: process.hang
    target: {rank: 0}
    at: {step: 77, phase: backward, point: {after: 5ms}}
    lasts: 5s
objective:
  recovered_by: [in_process, in_job]
  clock_from: fired
  detection_time: 2s
  recovery_time: 8s
  full_recovery_time: 20s
  lost_steps: 20
  restarts: {in_process: 1, in_job: 2}
  parts: {rendezvous: 3s}
  world_size: same
  state: {close: 0.001}
  data: exactly_once
  step_time_ratio: 2
  checks: {add: [parts_in_time], drop: [no_residue]}
limits: {timeout: 2m, ranks_down: 1, nodes_down: 0, faults: 2}
"""

KNOWN = """\
known: {checks: [lost_work], since: {nvrx: ">=0.4.1"}, ref: https://example.org/issues/7, until: 2027-03-01}
"""

FORESEEN = (
    WHOLE
    + """\
expect_failed: [lost_work]
known:
  checks: [state_exact, recovered_in_time]
  since: {nvrx: ">=0.4.1,<0.7", torch: "!=2.9"}
  ref: https://example.org/issues?number=7#last
  until: 2027-03-01
"""
)


def edited(text, *changes):
    """The text with each (old, new) replaced; every old must be there, so that no case tests nothing."""
    for old, new in changes:
        assert old in text, f"{old!r} is not in the file"
        text = text.replace(old, new)
    return text


def load_text(tmp_path, text, *sets, name="x.yaml"):
    """All runs of a file with this text."""
    file = tmp_path / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_path(file, sets)
