from __future__ import annotations

import pytest

from chaos.errors import Refused
from chaos.guard.limits import require
from chaos.model.plan import LimitsPlan


@pytest.mark.parametrize(("held_down", "armed"), [(0, 0), (1, 0), (0, 1)])
def test_a_fault_within_the_limit_may_begin(held_down, armed):
    require(LimitsPlan(ranks_down=2), held_down=held_down, armed=armed)


@pytest.mark.parametrize(("held_down", "armed"), [(2, 0), (0, 2), (1, 1)])
def test_held_and_armed_together_never_exceed_ranks_down(held_down, armed):
    with pytest.raises(Refused, match="ranks_down allows 2") as refused:
        require(LimitsPlan(ranks_down=2), held_down=held_down, armed=armed)
    assert refused.value.remedy


def test_the_number_of_faults_of_a_run_is_bounded_where_asked():
    require(LimitsPlan(ranks_down=9, faults=3), held_down=0, armed=1, fired=1)
    with pytest.raises(Refused, match="number 4"):
        require(LimitsPlan(ranks_down=9, faults=3), held_down=0, armed=1, fired=2)
    require(LimitsPlan(ranks_down=9), held_down=0, fired=1000)
