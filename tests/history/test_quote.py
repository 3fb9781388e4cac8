"""Lines by their numbers."""

from __future__ import annotations

import pytest

from chaos.history.quote import KEPT_BYTES_MAX, LINE_LENGTH_MAX, kept_files, last_lines, quoted


@pytest.fixture
def run_dir(tmp_path):
    for folder in ("history", "logs", "evidence", "job"):
        (tmp_path / folder).mkdir()
    (tmp_path / "history" / "rank-7-5.jsonl").write_text('{"a":1}\n{"b":2}\n{"c":3}\n')
    (tmp_path / "logs" / "job.log").write_text("".join(f"line {number}\n" for number in range(1, 21)))
    (tmp_path / "job" / "secret.txt").write_text("secret\n")
    (tmp_path / "control.jsonl").write_text("x" * 1000 + "\n")
    return tmp_path


def test_an_event_is_quoted_alone(run_dir):
    assert quoted(run_dir, ["rank-7-5.jsonl:2"]) == {"rank-7-5.jsonl:2": '{"b":2}'}


def test_a_line_of_a_log_is_quoted_with_its_neighbours_and_marked(run_dir):
    text = quoted(run_dir, ["logs/job.log:10"])["logs/job.log:10"]
    assert [line.split()[-1] for line in text.splitlines()] == [str(number) for number in range(8, 17)]
    assert [line for line in text.splitlines() if line.startswith(">")] == [">   10  line 10"]


def test_the_first_line_of_a_log_has_no_neighbours_before_it(run_dir):
    assert quoted(run_dir, ["logs/job.log:1"])["logs/job.log:1"].startswith(">    1  line 1\n")


def test_a_long_line_is_cut(run_dir):
    assert len(quoted(run_dir, ["control.jsonl:1"])["control.jsonl:1"]) == LINE_LENGTH_MAX


@pytest.mark.parametrize(
    "ref",
    [
        "rank-7-5.jsonl:9", "rank-7-5.jsonl:0", "rank-7-5.jsonl", "logs/none.log:1", "job/secret.txt:1",
        "../control.jsonl:1", "logs/../control.jsonl:1", "/etc/passwd:1", "logs/.hidden:1", "",
    ],
)  # fmt: skip
def test_what_is_not_a_line_of_the_runs_evidence_is_left_out(run_dir, ref):
    assert quoted(run_dir, [ref]) == {}


def test_the_last_lines_have_the_numbers_that_references_use(run_dir):
    assert last_lines(run_dir / "logs" / "job.log", 2) == [(19, "line 19"), (20, "line 20")]
    assert last_lines(run_dir / "history" / "rank-7-5.jsonl", 20)[0] == (1, '{"a":1}')


def test_a_line_that_is_still_being_written_is_no_line_yet(run_dir):
    path = run_dir / "logs" / "job.log"
    with path.open("a") as file:
        file.write("half")
    assert last_lines(path, 1) == [(20, "line 20")]


def test_of_a_long_file_only_whole_lines_of_its_end_are_told(run_dir):
    path = run_dir / "logs" / "long.log"
    path.write_text("".join(f"{number} {'x' * 20_000}\n" for number in range(1, 101)))
    found = last_lines(path, 20)
    assert [number for number, _ in found] == [98, 99, 100]
    assert all(text.startswith(f"{number} x") for number, text in found)


def test_what_was_kept_is_given_process_by_process_ranks_in_their_order(run_dir):
    names = ["sockets-10-7", "stacks-2-8", "state-2-8", "sockets-2-8", "stacks-launcher-1", "stacks-10-7"]
    for name in names:
        (run_dir / "evidence" / f"{name}.txt").write_text(name)
    (run_dir / "evidence" / "collectives-2-8.json").write_text("{}")
    assert list(kept_files(run_dir).values()) == [
        "stacks-2-8", "sockets-2-8", "state-2-8", "stacks-10-7", "sockets-10-7", "stacks-launcher-1",
    ]  # fmt: skip
    assert list(kept_files(run_dir)) == [f"evidence/{text}.txt" for text in kept_files(run_dir).values()]


def test_a_run_that_kept_nothing_gives_nothing(tmp_path):
    assert kept_files(tmp_path) == {}


def test_a_long_file_is_given_from_its_beginning(run_dir):
    (run_dir / "evidence" / "stacks-1-7.txt").write_text("x" * (KEPT_BYTES_MAX + 1))
    assert [len(text) for text in kept_files(run_dir).values()] == [KEPT_BYTES_MAX]
