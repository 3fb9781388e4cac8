"""Does the job make sense: one way to run it, settings where they belong, enough steps to be steady twice."""

from __future__ import annotations

import re

from chaos.scenario.meaning import Draft, twice
from chaos.scenario.problems import found

# Given to the trainer from the job's own keys: a second value here would contradict them.
_KEYS_OF_JOB = {
    "ranks": "say job.ranks_per_node",
    "out": "every run gets a folder of its own (run --out)",
    **{key: f"say job.{key}" for key in ("ranks_per_node", "nodes", "recovery", "steps", "shrink")},
}
_OURS = "NVRX_CHAOS_"


def check(draft: Draft) -> None:
    job = draft.spec.job
    if (job.run is None) == (job.command is None):
        state = "neither" if job.run is None else "both"
        draft.say(("job",), f"found {state} of run and command; exactly one is needed, such as run: trainer")
    if job.command is not None and job.args:
        draft.say(("job", "args"), "are the trainer's; put arguments into the command")
    if (layer := twice(job.recovery)) is not None:
        draft.say(("job", "recovery"), f"names {layer} twice")
    _check_args(draft)
    _check_env(draft)
    _check_words(draft)
    _check_steps(draft)


def _check_args(draft: Draft) -> None:
    for key, value in draft.spec.job.args.items():
        path = ("job", "args", key)
        if key in _KEYS_OF_JOB:
            draft.say(path, "is no argument of yours; " + _KEYS_OF_JOB[key])
        elif not re.fullmatch(r"[a-z][a-z0-9_]*", key):
            draft.say(path, "allowed: a setting's name in small letters, digits and underscores")
        elif not isinstance(value, str | int | float | bool):
            draft.say(path, f"found {found(value)}; allowed: text, a number, true or false")
    every = draft.spec.job.args.get("checkpoint_every", 1)
    if draft.spec.job.run == "trainer" and (not isinstance(every, int) or isinstance(every, bool) or every < 1):
        path = ("job", "args", "checkpoint_every")
        draft.say(path, f"found {found(every)}; allowed: a whole number of steps, at least 1")


def _check_env(draft: Draft) -> None:
    for name in draft.spec.job.env:
        path = ("job", "env", name)
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            draft.say(path, "is no name of an environment variable")
        elif name.startswith(_OURS):
            draft.say(path, f"names that begin with {_OURS} are ours")


def _check_words(draft: Draft) -> None:
    """A process is given words that end at the first zero byte."""
    job = draft.spec.job
    words = [(("job", "command", place), word) for place, word in enumerate(job.command or ())]
    words += [(("job", where, key), value) for where in ("args", "env") for key, value in getattr(job, where).items()]
    for path, word in words:
        if isinstance(word, str) and "\0" in word:
            draft.say(path, f"found {found(word)}; no process can be given a zero byte")


def _check_steps(draft: Draft) -> None:
    steps, steady = draft.spec.job.steps, draft.spec.steady_state.steps
    needed = (3 if draft.spec.faults else 2) * steady  # before a fault, to come back, and after
    if steps < needed:
        text = f"found {steps}; too few to see {steady} steady steps before and after: at least {needed}"
        draft.say(("job", "steps"), text)
