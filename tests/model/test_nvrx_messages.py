"""What NVRx says becomes one vocabulary, whichever version said it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.model.events import KINDS
from chaos.model.nvrx_messages import RANKS_MAX, TEXT_MAX, ranks_named, told

NEW = "[2026-12-01 12:18:09.896722] "
KILLED = "failed (exitcode: -9) local_rank: 1 (pid: 777) of binary: /usr/bin/python3"
OLD_TERM = "RankShouldRestart('Interruption.EXCEPTION on ranks={1}') <- RuntimeError('boom')"
NEW_TERM = (
    "RankShouldRestart('Interruption.EXCEPTION affecting ranks {0}, Interruption.TERMINATED affecting ranks {1}')"
)
MONITOR = "nvidia_resiliency_ext.inprocess.monitor_process"
SAID = [
    (f"rank=1 term_ex: {OLD_TERM}", 1, "interruption_reported", {"marker": "term_ex", "text": OLD_TERM, "ranks": [1]}),
    (
        f"{NEW}rank=0 term_ex: {NEW_TERM}", 0, "interruption_reported",
        {"marker": "term_ex", "text": NEW_TERM, "ranks": [0, 1]},
    ),
    ("rank=1 fn_ex: RuntimeError('boom')", 1, "interruption_reported", {"source": "in_process", "ranks": None}),
    ("rank=0 async_ex: RankShouldRestart()", 0, "interruption_reported", {"marker": "async_ex", "ranks": None}),
    (f"{NEW}rank=0 other_ex: KeyError()", 0, "interruption_reported", {"marker": "other_ex"}),
    ("rank=0 abort_ex: RuntimeError('x')", 0, "interruption_reported", {"marker": "abort_ex"}),
    (f"rank=0 restart_ex: HealthCheckPassed() <- {OLD_TERM}", 0, "health_check_passed", {}),
    (f"{NEW}rank=3 restart_ex: HealthCheckPassed()", 3, "health_check_passed", {"text": "HealthCheckPassed()"}),
    ("rank=0 health_ex: NVMLError_LibraryNotFound", 0, "health_check_failed", {"text": "NVMLError_LibraryNotFound"}),
    ("rank=None exit_ex: HealthCheckError", None, "rank_excluded", {"text": "HealthCheckError"}),
    (KILLED, None, "worker_failed", {"local_rank": 1, "pid": 777, "code": -9, "text": KILLED}),
    (KILLED.replace("of binary", "of fn").replace("-9", "1"), None, "worker_failed", {"code": 1}),
    (
        "[default] Worker group UNHEALTHY. 2/2 attempts left; will restart worker group", None, "interruption_reported",
        {"source": "in_job", "marker": "group_failed", "ranks": None},
    ),
    (
        "[default] group_rank=0 state.name='FAILED' detected that the current run failed: worker_state_cnt=Counter()",
        None, "interruption_reported", {"marker": "group_failed"},
    ),
    (
        "  - Cycle: 1 Event: failure_detected Node: vm_7_0 Rank: 0 Time: 2026-12-01 12:18:51.885 UTC", None,
        "interruption_reported", {"source": "in_job", "marker": "failure_detected", "ranks": None},
    ),
    ("Did not get subsequent heartbeat. Waited 3.20 seconds.", None, "hang_detected", {"waited_s": 3.2}),
    ("[Cycle 2] Did not get initial heartbeat. Waited 60.00 seconds.", None, "hang_detected", {"waited_s": 60.0}),
    ("Section 'step' has been open for 5.10 seconds. Timeout is 5.00 seconds.", None, "hang_detected",
     {"waited_s": 5.1}),
    ("[Cycle 0] Was out of section for 7.00 seconds. Timeout is 6.00 seconds.", None, "hang_detected",
     {"waited_s": 7.0}),
    ("The node 'vm_7_0' has joined round 1 of the rendezvous 'id' as rank 0 in a world of size 1.", None,
     "rendezvous_joined", {}),
    ("The node 'vm_7_0' has joined the rendezvous 'id' as rank 0 in a world of size 1.", None, "rendezvous_joined", {}),
    ("GPU health check failed for node vm_7_0: Node vm_7_0 has an unhealthy GPU.", None, "health_check_failed", {}),
    ("NIC link state health check failed for node vm_7_0: x", None, "health_check_failed", {}),
    ("Health check failed for node vm_7_0: x", None, "health_check_failed", {}),
    ("Unexpected error during Storage path health check for node vm_7_0: x", None, "health_check_failed", {}),
    ("[In-process] Rank terminated (initial_rank=3)", None, "rank_excluded", {}),
    ("[In-process] Hot spare activated: terminated rank (initial_rank=1, active_rank=1) replaced by spare rank", None,
     "rank_excluded", {}),
    ("[NestedRestarter] name=[InProcess] state=handling stage=starting", None, "abort_began", {}),
]  # fmt: skip
SILENT = [
    "", "loss 1.0", "FT timeout elapsed.", "Stopping workers... Timeout = 30 sec.", "target process is terminated",
    "The node 'vm' attempts to join the next round of the rendezvous 'id'.",
    "  - Cycle: 0 Event: health_check_completed Node: vm Rank: None Time: 2026-12-01 12:18:51.885 UTC",
    "  - Cycle: 0 Event: rendezvous_started Node: vm Rank: None Time: 2026-12-01 12:18:51.885 UTC",
    "[NestedRestarter] name=[InJob] state=handling stage=starting",
    "[NestedRestarter] name=[InProcess] state=initialize",
    "rank=0 terminate_ex: RuntimeError('x')", "rank=0 completion_ex: x", "rank=0 finalize_ex: x",
    "rank=0 fn_ex without",
    "the log said: rank=0 fn_ex: RuntimeError('boom')", f"the log said: {KILLED}",
    "[default] worker group successfully finished. Waiting 300 seconds for other agents to finish.",
    "[default] Detected 1 new nodes from group_rank=0; will restart worker group",
    "Performing health check for node vm_7_0", "[In-process] Rank shifted (rank changed from 2 to 1)",
    "failed (exitcode: 99999999999) local_rank: 1 (pid: 7) of binary: x",
]  # fmt: skip


@pytest.mark.parametrize("text, speaker, kind, fields", SAID, ids=[f"{each[2]}-{each[0][:40]}" for each in SAID])
def test_a_message_becomes_its_event(text, speaker, kind, fields):
    said = told(text)
    assert (said.kind, said.speaker) == (kind, speaker)
    assert {name: said.fields[name] for name in fields} == fields


@pytest.mark.parametrize("text", SILENT)
def test_other_messages_say_nothing(text):
    assert told(text) is None


@pytest.mark.parametrize("logger", [MONITOR, "monitor_process", "nvrx"])
def test_the_monitor_process_is_believed_when_it_is_the_one_that_speaks(logger):
    said = told("target process is terminated", logger)
    assert said.kind == "interruption_reported" and said.fields["source"] == "in_process_monitor"
    assert told("SIGTERM psutil.Process(pid=7, name='python')", logger).kind == "hang_detected"
    assert told("MonitorProcess raised boom", logger).fields["marker"] == "monitor_raised"
    assert told("target process is terminated, shutting down", logger) is None
    assert told("MonitorProcess clean shutdown", logger) is None


@pytest.mark.parametrize("logger", ["", "my.training.script", "nvidia_resiliency_ext.inprocess.wrap"])
def test_the_same_sentence_of_another_is_not(logger):
    assert told("target process is terminated", logger) is None


@pytest.mark.parametrize(
    "text, ranks",
    [
        ("Interruption.EXCEPTION on ranks={1}", [1]),
        ("Interruption.EXCEPTION on ranks={2, 0}, Interruption.SOFT_TIMEOUT on ranks={1}", [0, 1, 2]),
        ("Interruption.EXCEPTION affecting ranks {1-3, 5}", [1, 2, 3, 5]),
        ("Interruption.EXCEPTION on ranks=set()", []),
        ("Interruption.TERMINATED affecting ranks {0, 1, 2, 3...28, 29, 30, 31 (total: 32)}", None),
        (f"Interruption.TERMINATED affecting ranks {{0-{RANKS_MAX + 1}}}", None),
        ("Interruption.TERMINATED affecting ranks {" + "9" * 5000 + "}", None),
        ("KeyError('ranks={1}')", None),
    ],
)
def test_ranks_are_those_that_nvrx_names_and_unknown_when_it_left_some_out(text, ranks):
    assert ranks_named(text) == ranks


def test_ranks_in_the_jobs_own_exception_are_not_nvrxs():
    own = "RuntimeError('Interruption.EXCEPTION on ranks={7}')"
    assert told(f"rank=0 fn_ex: {own}").fields["ranks"] is None
    assert told(f"rank=0 term_ex: RankShouldRestart('Interruption.EXCEPTION on ranks={{1}}') <- {own}").fields[
        "ranks"
    ] == [1]


def test_a_long_text_is_cut_after_its_ranks_were_read():
    text = "RankShouldRestart('" + "x" * 2 * TEXT_MAX + "Interruption.EXCEPTION on ranks={4}')"
    fields = told(f"rank=0 term_ex: {text}").fields
    assert fields["ranks"] == [4] and len(fields["text"]) == TEXT_MAX


def test_every_kind_told_is_of_the_vocabulary_and_has_its_own_fields_only():
    for text, _, kind, _ in SAID:
        _, own = KINDS[kind]
        assert all(name in own or name == "text" for name in told(text).fields), text


_PIECES = [text for text, *_ in SAID] + [
    "rank=", "term_ex: ", "Interruption.X on ranks={", "}", "[Cycle ", "] ", "Waited ", "9" * 400, " seconds", "\n",
]  # fmt: skip


@given(st.lists(st.one_of(st.text(), st.sampled_from(_PIECES)), max_size=6).map("".join), st.sampled_from(["", "nvrx"]))
def test_no_message_ever_raises(text, logger):
    said = told(text, logger)
    assert said is None or (said.kind in KINDS and len(said.fields.get("text", "")) <= TEXT_MAX)


def test_ranks_may_import_it():
    script = (
        "import sys; before = set(sys.modules); import chaos.model.nvrx_messages;"
        "print(*{m.split('.')[0] for m in set(sys.modules) - before} - sys.stdlib_module_names)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30)
    assert ran.stdout.split() == ["chaos"]
