"""Where a main thread stood, found in dumps as faulthandler and py-spy write them."""

from __future__ import annotations

from chaos.system.frames import stand_in

OFFER = "life b-1-77-5 writes its stacks here on signal 51\n"
WAITING = """Thread 0x00007f1c (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait
  File "/job/agent.py", line 9 in serve

"""
MAIN = """Current thread 0x00007f2d (most recent call first):
  File "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 2500 in all_reduce
  File "/job/optimise.py", line 41 in reduce_and_clip
  File "/job/train.py", line 108 in train_in_group
"""
SPIED = """Process 77: python -m trainer
Python v3.11.2 (/usr/bin/python3.11)

Thread 78 (idle): "nvrx-chaos-recorder"
    wait (/usr/lib/python3.11/threading.py:324)
Thread 77 (idle): "MainThread"
    wait_for_ever (/job/data.py:12)
    <module> (/job/train.py:3)
"""


def test_the_innermost_call_is_told_with_the_jobs_own_call_that_led_to_it():
    dump = OFFER + WAITING + MAIN
    stand = stand_in(dump)
    assert stand.words == "all_reduce (distributed_c10d.py:2500), called from reduce_and_clip (optimise.py:41)"
    assert dump.splitlines()[stand.line - 1].endswith("line 2500 in all_reduce")


def test_a_hook_of_ours_is_not_the_jobs_own_call():
    hook = '  File "/somewhere/chaos/agent/hooks/step.py", line 74 in collective\n'
    head, inner, own, *_ = MAIN.splitlines(keepends=True)
    assert stand_in(head + inner + hook + own).words.endswith("called from reduce_and_clip (optimise.py:41)")


def test_a_call_of_the_job_itself_is_told_alone():
    dump = 'Current thread 0x1 (most recent call first):\n  File "/job/data.py", line 12 in wait_for_ever\n'
    assert stand_in(dump) == (2, "wait_for_ever (data.py:12)")


def test_where_no_thread_is_the_current_one_the_last_of_the_dump_is_the_main_thread():
    dump = OFFER + WAITING + MAIN.replace("Current thread", "Thread")
    assert stand_in(dump).words.startswith("all_reduce")


def test_the_thread_that_py_spy_names_is_used_where_the_process_did_not_answer():
    dump = "--- no stacks of its own: it is stopped\n" + SPIED
    stand = stand_in(dump)
    assert stand.words == "wait_for_ever (data.py:12)"
    assert "wait_for_ever" in dump.splitlines()[stand.line - 1]


def test_the_processs_own_word_goes_before_what_was_seen_from_outside():
    assert stand_in(MAIN + SPIED).words.startswith("all_reduce")


def test_a_dump_without_a_call_of_the_main_thread_says_nothing():
    assert stand_in("") is None
    assert stand_in(OFFER + "Current thread 0x1 (most recent call first):\n  <no Python frame>\n") is None
    assert stand_in("no stacks: py-spy is not installed\n") is None
