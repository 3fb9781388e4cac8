"""The catalogue of faults: one section for each, from the catalogue itself and a few words on proof and undo."""

from __future__ import annotations

from typing import Any

import msgspec

from chaos.faults.base import Fault
from chaos.faults.catalogue import CATALOGUE
from reference.markdown import code, listed, same_names, table

NEEDS = {
    "agent": "the [agent](your-own-job.md#the-agent) in the rank",
    "proc": "a readable process table (`/proc`)",
    "pidfd": "pidfds (Linux 5.3 or newer), so that a signal reaches exactly one process",
}
ENDS = {
    "final": "at once; there is nothing to take back",
    "undone": "we take it back",
    "by_itself": "by itself",
}
# fault -> how its effect is confirmed from outside, how it is undone
PROOF = {
    "process.exception": (
        "NVRx reports an interruption that carries our mark, or the same process enters its training function again, "
        "or it ends with a failure before a further step. A further step in the same entry shows that it did not act.",
        "Nothing to undo. While it is armed it is an order with a 3 s lease: no fresh lease, no harm.",
    ),
    "process.kill": (
        "The very process ended by this very signal, as the kernel tells it (Linux 6.15 or newer), else as the "
        "launcher's record tells it. Another signal or exit code, or a further step, shows that it did not act.",
        "Nothing to undo. While it is armed it is an order with a 3 s lease: no fresh lease, no harm.",
    ),
    "process.hang": (
        "The process table shows the process as stopped (state T) within a second.",
        "SIGCONT to that very process; measured: not stopped, or gone because NVRx ended it meanwhile. Due at the end "
        "of `lasts`, when the process ends, or when the run ends, whichever comes first.",
    ),
}


def catalogue() -> str:
    """All faults, in the order of the catalogue."""
    same_names("faults", PROOF, (fault.name for fault in CATALOGUE))
    return "\n\n".join(_section(fault) for fault in CATALOGUE)


def _section(fault: Fault) -> str:
    confirmed, undone = PROOF[fault.name]
    rows = [
        ("acts on", fault.layer),
        ("fidelity", fault.fidelity),
        ("ends", ENDS[fault.ends]),
        ("a pass certifies", fault.certifies),
        ("it does **not** certify", fault.does_not_certify),
        ("usually recovered by", code(fault.usual_layer)),
        ("needs", "; ".join(NEEDS[need] for need in fault.needs)),
        ("touches", listed(fault.touches) or "nothing but its target"),
        ("confirmed by", confirmed),
        ("undone by", undone),
    ]
    return f"## `{fault.name}`\n\n{_sentence(fault.summary)}\n\n{table(('', ''), rows)}\n\n{_params(fault)}"


def _params(fault: Fault) -> str:
    definition = msgspec.json.schema(fault.Params)["$defs"][fault.Params.__name__]
    properties: dict[str, Any] = definition.get("properties", {})
    if not properties:
        return "Parameters: none."
    rows = [(code(name), _allowed(rule), _default(rule)) for name, rule in properties.items()]
    return table(("parameter", "allowed", "default"), rows)


def _allowed(rule: dict[str, Any]) -> str:
    if "enum" in rule:
        return listed(rule["enum"])
    return f"one line of text, at most {rule['maxLength']} letters" if "maxLength" in rule else str(rule.get("type"))


def _default(rule: dict[str, Any]) -> str:
    return "–" if "default" not in rule else code(rule["default"]) if rule["default"] else "empty"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
