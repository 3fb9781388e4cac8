"""Every fault there is: plain data, each entry checked once when this is imported. Adding a fault = adding it here."""

from __future__ import annotations

import msgspec

from chaos.faults.base import ActsFromOutside, Fault, FeltInRank
from chaos.faults.process_exception import ProcessException
from chaos.faults.process_hang import ProcessHang
from chaos.faults.process_kill import ProcessKill

_WORDS = ("name", "summary", "layer", "certifies", "does_not_certify")
_CLOSED = {
    "fidelity": ("real", "simulated"),
    "ends": ("undone", "by_itself", "final"),
    "usual_layer": ("in_process", "in_job", "new_job", "none"),
}


def check_entry(fault: Fault) -> None:
    """Raises TypeError naming the fault and what it lacks."""
    who = type(fault).__name__
    for attribute in _WORDS:
        if not isinstance(getattr(fault, attribute, None), str) or not getattr(fault, attribute).strip():
            raise TypeError(f"{who}: `{attribute}` must be a text that says something")
    for attribute, allowed in _CLOSED.items():
        if getattr(fault, attribute, None) not in allowed:
            raise TypeError(f"{who}: `{attribute}` must be one of {', '.join(allowed)}")
    if fault.name.count(".") != 1 or not all(fault.name.split(".")):
        raise TypeError(f"{who}: `name` must be family.kind, found {fault.name!r}")
    if not (isinstance(fault.Params, type) and issubclass(fault.Params, msgspec.Struct)):
        raise TypeError(f"{who}: `Params` must be a msgspec struct")
    if not isinstance(fault, FeltInRank | ActsFromOutside):
        raise TypeError(f"{who}: harms nobody; it offers neither an order nor a harm from outside")


CATALOGUE: tuple[Fault, ...] = (ProcessException(), ProcessKill(), ProcessHang())
for _fault in CATALOGUE:
    check_entry(_fault)
BY_NAME: dict[str, Fault] = {fault.name: fault for fault in CATALOGUE}
assert len(BY_NAME) == len(CATALOGUE), "two faults share a name"
