from __future__ import annotations

import pytest

from chaos.guard.limits import allows
from chaos.model.plan import LimitsPlan


@pytest.mark.parametrize("down", [set(), {0}, {1}])
def test_a_fault_within_the_limit_may_begin(down):
    assert allows(LimitsPlan(ranks_down=2), rank=1, down=down, begun=0)


@pytest.mark.parametrize(("rank", "down"), [(2, {0, 1}), (0, {1, 2, 3})])
def test_ranks_held_and_armed_together_never_exceed_ranks_down(rank, down):
    assert not allows(LimitsPlan(ranks_down=2), rank=rank, down=down, begun=0)


def test_a_second_fault_at_a_rank_that_is_down_already_takes_no_further_rank():
    assert allows(LimitsPlan(ranks_down=1), rank=1, down={1}, begun=1)


def test_the_number_of_faults_of_a_run_is_bounded_where_asked():
    assert allows(LimitsPlan(ranks_down=9, faults=3), rank=0, down=set(), begun=2)
    assert not allows(LimitsPlan(ranks_down=9, faults=3), rank=0, down=set(), begun=3)
    assert allows(LimitsPlan(ranks_down=9), rank=0, down=set(), begun=1000)
