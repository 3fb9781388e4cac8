"""Which samples a rank reads: a function of seed, step, rank and world size, each sample once."""

from __future__ import annotations

import pytest
import torch

from trainer import corpus
from trainer.data import Batches

TEXT = bytes(range(256)) * 40


def batches(rank: int = 0, world_size: int = 2, seed: int = 0, batch: int = 3) -> Batches:
    return Batches(TEXT, context=8, batch=batch, seed=seed, rank=rank, world_size=world_size)


def test_the_ranks_of_a_step_share_its_positions_without_gap_or_overlap():
    spans = [batches(rank=rank).span(step) for step in range(5) for rank in range(2)]
    assert spans == [(first, first + 3) for first in range(0, 30, 3)]


def test_the_position_is_what_all_ranks_have_read_before_the_step():
    assert batches().position(0) == 0
    assert batches(rank=1).position(5) == batches(rank=0).span(5)[0] == 30


def test_the_same_step_gives_the_same_batch_in_another_process():
    first, again = batches(rank=1).batch(7), batches(rank=1).batch(7)
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1])


@pytest.mark.parametrize("other", [{"rank": 1}, {"seed": 1}])
def test_rank_and_seed_change_the_batch(other):
    assert not torch.equal(batches().batch(7)[0], batches(**other).batch(7)[0])


def test_another_step_reads_other_samples():
    assert not torch.equal(batches().batch(7)[0], batches().batch(8)[0])


def test_a_target_is_the_byte_after_its_input():
    inputs, targets = batches().batch(3)
    assert inputs.shape == targets.shape == (3, 8)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])


def test_a_text_just_long_enough_can_be_read():
    inputs, _ = Batches(TEXT[:9], context=8, batch=2, seed=0, rank=0, world_size=1).batch(0)
    assert inputs.tolist() == [list(range(8))] * 2


def test_a_folder_is_read_in_sorted_order_up_to_the_bound(tmp_path):
    (tmp_path / "b.txt").write_bytes(b"bbbb")
    (tmp_path / "a.txt").write_bytes(b"aaaa")
    assert corpus.read(tmp_path, bytes_max=6, bytes_min=1) == b"aaaabb"


def test_the_default_text_is_the_standard_library():
    assert b"import" in corpus.read(None, bytes_max=50_000, bytes_min=50_000)


def test_a_text_that_is_too_short_is_refused_by_name(tmp_path):
    short = tmp_path / "short.txt"
    short.write_bytes(b"abc")
    with pytest.raises(corpus.NoText, match=r"short\.txt: 3 bytes"):
        corpus.read(short, bytes_max=100, bytes_min=9)
