"""Histories in which checkpoints, state or data are wrong, and nothing else is."""

from __future__ import annotations

from mutant import broken_history
from tale import Line, Tale, own

LOADED_STEP, NEWER_STEP = 40, 50  # the checkpoint that the recovery goes on from, and one that comes before the fault
LATER_STEP = 60  # a checkpoint of the group that was brought back
SKIPPED_FROM, UNTRAINED, WRONG_LOSS_AT = 63, 70, 100


def committed_before_all_staged(tale: Tale) -> None:
    """A checkpoint counts before one rank has staged its part."""
    staged = tale.last("checkpoint_staged", step=LATER_STEP)
    tale.one("checkpoint_committed", step=LATER_STEP)["t_ns"] = staged["t_ns"] - 1_000_000


def parts_of_two_groups(tale: Tale) -> None:
    """A checkpoint has one rank's part from before the restart and the other's from after it."""
    old, new = tale.groups[0], tale.groups[-1]
    tale.drop("checkpoint_staged", group=new, rank=1, step=LATER_STEP)
    tale.add(tale.last("step_done", group=old, rank=1), "checkpoint_staged", after_s=0.001, step=LATER_STEP, stall_s=0)


def a_file_too_few(tale: Tale) -> None:
    """A checkpoint was published with a file less than the others have."""
    tale.one("checkpoint_committed", step=LATER_STEP)["files"] -= 1


def goes_back_too_far(tale: Tale) -> None:
    """There was a newer checkpoint than the one it went on from, and nothing was wrong with it."""
    old = tale.groups[0]
    saving = ("checkpoint_began", "checkpoint_staged", "checkpoint_committed")
    done = {step: tale.last("step_done", group=old, step=step - 1) for step in (LOADED_STEP, NEWER_STEP)}
    later_s = (done[NEWER_STEP]["t_ns"] - done[LOADED_STEP]["t_ns"]) / 1e9
    for line in tale.all(*saving, group=old, step=LOADED_STEP):
        told = own(line) | {"step": NEWER_STEP}
        if "path" in told:
            told["path"] = told["path"].replace(f"{LOADED_STEP:06d}", f"{NEWER_STEP:06d}")
        tale.add(line, line["kind"], after_s=later_s, **told)


def loads_what_was_not_saved(tale: Tale) -> None:
    """One rank's shards after loading are not the ones that were saved."""
    tale.last("digest_taken", purpose="loaded")["shards"] = "0" * 64


def another_loss(tale: Tale) -> None:
    """Long after the recovery one step gives another loss than without the fault."""
    done = tale.all("step_done", group=tale.groups[-1], step=WRONG_LOSS_AT)
    tale.change(done, loss=(1.0).hex())


def replicated_tensor_differs(tale: Tale) -> None:
    """What all ranks should have alike differs on one at the end."""
    tale.last("digest_taken", purpose="end", rank=1)["replicated"] = "0" * 64


def another_rate_on_one_rank(tale: Tale) -> None:
    """One rank trains with another learning rate after the recovery."""
    for done in tale.all("step_done", group=tale.groups[-1], rank=1):
        done["lr"] = (2 * float.fromhex(done["lr"])).hex()


def samples_left_out(tale: Tale) -> None:
    """From one step on the data is a batch ahead."""
    _shift_samples(tale, +1)


def samples_used_twice(tale: Tale) -> None:
    """From one step on the data is a batch behind."""
    _shift_samples(tale, -1)


def reported_and_not_trained(tale: Tale) -> None:
    """One rank reports a step that its optimizer never saw."""
    tale.drop("phase_entered", group=tale.groups[-1], rank=0, step=UNTRAINED, phase="optimizer")
    tale.drop("step_returned", group=tale.groups[-1], rank=0, step=UNTRAINED)


def _shift_samples(tale: Tale, steps: int) -> None:
    def concerned(line: Line) -> bool:
        return bool(line["step"] >= SKIPPED_FROM)

    done = tale.all("step_done", group=tale.groups[-1], where=concerned)
    both = sum(end - first for first, end in (line["samples"] for line in done if line["step"] == SKIPPED_FROM))
    for line in done:
        line["samples"] = [position + steps * both for position in line["samples"]]


MUTANTS = (
    broken_history(committed_before_all_staged, must_fail="checkpoint_integrity"),
    broken_history(parts_of_two_groups, must_fail="checkpoint_integrity"),
    broken_history(a_file_too_few, must_fail="checkpoint_integrity"),
    broken_history(goes_back_too_far, must_fail="lost_work"),
    broken_history(loads_what_was_not_saved, must_fail="state_exact"),
    broken_history(another_loss, must_fail="state_exact"),
    broken_history(replicated_tensor_differs, must_fail="ranks_agree"),
    broken_history(another_rate_on_one_rank, must_fail="ranks_agree"),
    broken_history(samples_left_out, must_fail="data_exactly_once"),
    broken_history(samples_used_twice, must_fail="data_exactly_once"),
    broken_history(reported_and_not_trained, must_fail="data_exactly_once"),
)
