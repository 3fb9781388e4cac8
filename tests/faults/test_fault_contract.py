"""One contract for every fault: a new one joins the catalogue and is tested here."""

from __future__ import annotations

import msgspec
import msgspec.inspect
import pytest
from fault_build import VICTIM, FakeHost, fired

from chaos.faults.base import ActsFromOutside, ConfirmedByLooking, FeltInRank
from chaos.faults.catalogue import BY_NAME, CATALOGUE, check_entry
from chaos.faults.process_kill import ProcessKill
from chaos.model.orders import VERBS
from chaos.model.undo import UNDO_VERBS

every_fault = pytest.mark.parametrize("fault", CATALOGUE, ids=lambda fault: fault.name)

# Undo verbs that no fault asks for: the session needs them for what it makes itself.
NOT_OF_FAULTS = {"stop_job", "remove_path", "disarm"}


def defaults(fault):
    return msgspec.convert({}, fault.Params)


@every_fault
def test_a_fault_says_what_a_pass_certifies_and_what_not(fault):
    assert len(fault.certifies) > 20
    assert len(fault.does_not_certify) > 20
    assert fault.certifies != fault.does_not_certify


@every_fault
def test_parameters_are_strict_and_have_defaults(fault):
    assert fault.Params.__struct_config__.frozen
    assert fault.Params.__struct_config__.forbid_unknown_fields
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"no_such_parameter": 1}, fault.Params)
    assert msgspec.convert(msgspec.to_builtins(defaults(fault)), fault.Params) == defaults(fault)


@every_fault
def test_every_parameter_is_a_closed_set_or_has_a_bound(fault):
    for field in msgspec.inspect.type_info(fault.Params).fields:
        kind = field.type.type if isinstance(field.type, msgspec.inspect.Metadata) else field.type
        if isinstance(kind, msgspec.inspect.StrType):
            assert kind.max_length is not None, field.name
        elif isinstance(kind, msgspec.inspect.IntType | msgspec.inspect.FloatType):
            assert kind.ge is not None or kind.gt is not None, field.name
            assert kind.le is not None or kind.lt is not None, field.name
            assert field.name.rpartition("_")[2] in ("s", "ms", "bytes", "count", "steps"), "a number carries its unit"
        else:
            assert isinstance(kind, msgspec.inspect.LiteralType | msgspec.inspect.BoolType), field.name


@every_fault
def test_an_order_uses_a_verb_that_ranks_know_with_plain_arguments(fault):
    if not isinstance(fault, FeltInRank):
        pytest.skip("acts from outside only")
    verb, arguments = fault.verb(defaults(fault))
    assert verb in VERBS
    assert msgspec.json.decode(msgspec.json.encode(arguments)) == arguments


@every_fault
def test_a_fault_that_holds_gives_an_undo_and_one_that_is_final_gives_none(fault):
    if not isinstance(fault, ActsFromOutside):
        assert fault.ends != "undone", "what is done inside a rank only cannot be taken back from outside"
        return
    undo = fault.undo(defaults(fault), VICTIM)
    assert (undo is not None) == (fault.ends == "undone")
    assert undo is None or undo.verb in UNDO_VERBS


@every_fault
def test_undoing_twice_leaves_the_system_as_undoing_once_does(fault):
    if fault.ends != "undone":
        pytest.skip("nothing to take back")
    host = FakeHost()
    before = dict(host.state)
    fault.harm(defaults(fault), VICTIM, host, "mark")
    assert host.state != before
    undo = fault.undo(defaults(fault), VICTIM)
    host.carry_out(undo)
    assert host.state == before
    host.carry_out(undo)
    assert host.state == before


@every_fault
def test_harm_reaches_the_target_alone_and_carries_the_mark(fault):
    if not isinstance(fault, ActsFromOutside):
        pytest.skip("harms itself only")
    host = FakeHost()
    fault.harm(defaults(fault), VICTIM, host, "run-7")
    assert [(life, mark) for life, _, mark in host.sent] == [(VICTIM.id, "run-7")]


@every_fault
def test_without_any_evidence_nothing_is_confirmed(fault):
    firing = fired(verb=fault.verb(defaults(fault))[0])
    assert fault.took_effect(defaults(fault), firing, []).acted is None
    assert fault.took_effect(defaults(fault), firing, [firing]).acted is None


@every_fault
def test_a_fault_names_the_evidence_of_what_it_claims_or_looks_itself(fault):
    assert isinstance(fault, ConfirmedByLooking) or fault.ends == "final"


def test_every_verb_is_used_by_a_fault():
    used = {fault.verb(defaults(fault))[0] for fault in CATALOGUE if isinstance(fault, FeltInRank)}
    assert used == set(VERBS)


def test_every_undo_verb_is_used_by_a_fault_or_listed_here():
    undos = [fault.undo(defaults(fault), VICTIM) for fault in CATALOGUE if isinstance(fault, ActsFromOutside)]
    assert {undo.verb for undo in undos if undo is not None} == set(UNDO_VERBS) - NOT_OF_FAULTS


def test_names_find_their_fault():
    assert list(BY_NAME) == [fault.name for fault in CATALOGUE] == ["process.exception", "process.kill", "process.hang"]


@pytest.mark.parametrize(
    ("attribute", "value", "said"),
    [
        ("certifies", " ", "certifies"),
        ("ends", "sometimes", "ends"),
        ("fidelity", "fake", "fidelity"),
        ("usual_layer", "cloud", "usual_layer"),
        ("name", "kill", "family.kind"),
        ("Params", dict, "struct"),
    ],
)
def test_an_incomplete_fault_is_refused_at_the_door(attribute, value, said):
    wrong = type("Wrong", (ProcessKill,), {attribute: value})()
    with pytest.raises(TypeError, match=said):
        check_entry(wrong)


def test_a_fault_that_harms_nobody_is_refused_at_the_door():
    words = {name: getattr(ProcessKill, name) for name in ("name", "summary", "layer", "certifies", "does_not_certify")}
    closed = {"fidelity": "real", "ends": "final", "usual_layer": "in_job", "Params": ProcessKill.Params}
    with pytest.raises(TypeError, match="harms nobody"):
        check_entry(type("Idle", (), {**words, **closed})())
