"""Flight recorders' dumps in words: entries as torch 2.13 writes them for Gloo, and as NCCL's are."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.session.collectives import in_words


def entry(number: int, **changes: Any) -> dict[str, Any]:
    fields = {
        "collective_seq_id": number, "process_group": ["0", "default_pg"], "profiling_name": "gloo:all_gather",
        "state": "scheduled", "retired": True,
    }  # fmt: skip
    return fields | changes


def test_what_is_not_retired_on_gloo_is_under_way():
    dump = {"entries": [entry(1), entry(2), entry(3, retired=False)]}
    assert in_words(dump) == "3 recorded; under way: gloo:all_gather, number 3 of default_pg"


def test_on_nccl_what_is_completed_is_over_and_what_timed_out_is_not():
    done = entry(7, profiling_name="nccl:all_reduce", state="completed", retired=False)
    timed_out = entry(8, profiling_name="nccl:all_reduce", state="started")
    assert in_words({"entries": [done, timed_out]}) == "2 recorded; under way: nccl:all_reduce, number 8 of default_pg"


def test_where_all_are_over_none_is_under_way():
    assert in_words({"entries": [entry(1)]}) == "1 recorded; under way: none"


def test_of_many_the_last_ones_are_named_and_the_others_counted():
    words = in_words({"entries": [entry(number, retired=False) for number in range(20)]})
    assert "number 19 of" in words and "number 14 of" not in words and "and 15 before these" in words


@pytest.mark.parametrize(
    ("dump", "words"),
    [
        ({"none": "gloo has none"}, "none: gloo has none"),
        ([], "none: not a dump"),
        ({"entries": 3}, "none: not a dump"),
    ],
)
def test_what_is_no_dump_says_why_or_that_it_is_not_understood(dump, words):
    assert in_words(dump).startswith(words)


def test_an_entry_of_another_form_is_named_as_far_as_it_goes():
    assert in_words({"entries": ["x", {}]}) == "2 recorded; under way: unnamed, number ? of its group"
