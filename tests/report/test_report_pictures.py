"""Claims about the geometry of the pictures."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_builders import incident, timeline, unknown, verdict

from chaos.model.plan import ObjectivePlan
from chaos.model.timeline import Mark, Span, StepMark, Timeline
from chaos.model.verdict import PartTime
from chaos.report.charts import TOP, loss_chart, step_time_chart
from chaos.report.incident import GUTTER, REST, incident_bars
from chaos.report.lanes import LANES_MAX, hidden_rank_count, overview_picture, zoomed_picture
from chaos.report.scales import POINTS_MAX, Scale, axis_ticks, thinned
from chaos.report.series import Series

MODEST = st.floats(-1e6, 1e6)


def zoom(the_timeline, the_verdict=None):
    series = Series(the_timeline)
    window = series.incident_windows(the_verdict or verdict())[0]
    return zoomed_picture(series, window, "incident")


def lane(picture, name):
    return next(each for each in picture.lanes if each.name == name)


@settings(deadline=None)
@given(MODEST, st.floats(1e-3, 1e6), st.integers(1, 12))
def test_ticks_lie_inside_their_axis_and_are_few(low, span, about):
    scale = Scale(low, low + span, 0, 1000)
    ticks = axis_ticks(scale, about)
    assert len(ticks) <= about + 1
    assert all(-1 <= tick.at <= 1001 for tick in ticks)


def test_ticks_of_steps_are_whole():
    assert [tick.label for tick in axis_ticks(Scale(0, 3, 0, 100), 10, whole=True)] == ["0", "1", "2", "3"]


def test_an_axis_without_extent_still_has_a_tick():
    assert [tick.label for tick in axis_ticks(Scale(5, 5, 0, 100), 10)] == ["5"]


def test_thinning_keeps_ends_and_spikes():
    points = [(float(step), 1.0) for step in range(50_000)]
    points[31_415] = (31_415.0, 99.0)
    kept = thinned(points)
    assert len(kept) <= POINTS_MAX
    assert kept[0] == points[0] and kept[-1] == points[-1] and points[31_415] in kept
    assert kept == sorted(kept)


def test_short_series_are_not_thinned():
    points = [(float(step), 1.0) for step in range(POINTS_MAX)]
    assert thinned(points) == points


def test_a_step_time_never_spans_a_restart():
    times = Series(timeline()).step_times
    assert max(time.time_s for time in times) < 0.03
    assert 41 not in {time.step for time in times if time.group == 1}


def test_a_step_time_never_spans_a_gap_in_the_record():
    marks = tuple(StepMark(step=step, rank=0, group=0, t_s=float(step)) for step in (1, 2, 9, 10))
    assert [time.step for time in Series(Timeline(t0_ns=0, end_s=11, ranks=(0,), steps=marks)).step_times] == [2, 10]


def test_steps_done_twice_are_those_of_two_groups():
    assert Series(timeline(kill_at=47, resume_at=41)).done_twice == list(range(41, 48))
    assert Series(timeline(kill_at=47, resume_at=48)).done_twice == []


def test_only_the_step_after_the_fault_in_the_given_up_group_is_a_ghost():
    series = Series(timeline())
    assert [(mark.step, mark.rank) for mark in series.steps if series.is_ghost(mark)] == [(47, 0)]


def test_steps_after_a_fault_that_needed_no_restart_are_no_ghosts():
    whole = timeline()
    marks = tuple(mark for mark in whole.steps if mark.group == 0)
    series = Series(msgspec.structs.replace(whole, steps=marks))
    assert not any(series.is_ghost(mark) for mark in series.steps)


def test_the_median_is_the_one_before_the_fault():
    slow_after = timeline()
    steps = tuple(
        msgspec.structs.replace(mark, t_s=mark.t_s * 3) if mark.group == 1 else mark for mark in slow_after.steps
    )
    assert Series(msgspec.structs.replace(slow_after, steps=steps)).median_before_s == pytest.approx(0.0225, abs=0.002)


def test_the_window_holds_the_whole_incident():
    series = Series(timeline())
    window = series.incident_windows(verdict())[0]
    fired_s = series.fault_times_s[0]
    assert window.start_s < fired_s
    assert window.end_s > fired_s + incident().full_recovery_time_s


def test_an_outage_without_end_is_shown_to_the_end_of_what_is_known():
    series = Series(timeline())
    assert series.incident_windows(unknown())[0].end_s >= series.timeline.end_s


def test_two_incidents_have_windows_of_their_own():
    whole = timeline(steps=400)
    second = Mark(lane="rank 0", kind="fault_fired", name="again", t_s=whole.end_s - 3)
    both = verdict(incidents=(incident(), incident(faults=("again",), recovery_time_s=1.0, full_recovery_time_s=1.5)))
    windows = Series(msgspec.structs.replace(whole, marks=(*whole.marks, second))).incident_windows(both)
    assert [window.number for window in windows] == [1, 2]
    assert windows[0].end_s < windows[1].start_s + 1


def test_an_outage_without_a_fault_of_ours_is_found_by_its_span():
    spans = (
        Span(lane="job", kind="fault", name="kill", start_s=4.2, end_s=6.0),
        Span(lane="job", kind="fault", name="outage without a fault of ours", start_s=7.5, end_s=8.0),
    )
    both = verdict(incidents=(incident(), incident(faults=(), recovery_time_s=0.5, full_recovery_time_s=0.6)))
    windows = Series(msgspec.structs.replace(timeline(), spans=spans)).incident_windows(both)
    assert windows[0].start_s < 4.2 < windows[1].start_s < 7.5 < windows[1].end_s


def test_an_incident_whose_faults_left_no_mark_has_no_window():
    assert Series(msgspec.structs.replace(timeline(), marks=())).incident_windows(verdict()) == []


def test_every_rank_has_a_lane_and_the_parts_stand_below():
    picture = zoom(timeline())
    assert [each.name for each in picture.lanes] == ["rank 0", "rank 1", "job"]
    parts = [box for box in lane(picture, "job").boxes if box.css.startswith("recovery_part")]
    assert len(parts) == len(incident().parts)
    assert "4 process start 1.48 s" in [box.text for box in parts]


def test_boxes_of_a_lane_do_not_cover_each_other():
    boxes = lane(zoom(timeline()), "job").boxes
    for index, one in enumerate(boxes):
        for other in boxes[index + 1 :]:
            apart = one.x + one.width <= other.x + 1.6 or other.x + other.width <= one.x + 1.6
            assert apart or one.y != other.y


def test_every_step_of_a_long_run_is_covered_by_the_overview():
    steps = tuple(StepMark(step=n, rank=0, group=0, t_s=n / 50) for n in range(30_000))
    ticks = overview_picture(Series(Timeline(t0_ns=0, end_s=600, ranks=(0,), steps=steps)), []).lanes[0].ticks
    assert [each.path for each in ticks] == ["M84 19v10H1068v-10z"]


def test_ghost_steps_are_drawn_apart():
    assert {ticks.css for ticks in lane(zoom(timeline()), "rank 0").ticks} == {"g0", "ghost", "g1"}
    assert zoom(timeline()).has_ghosts


def test_labels_of_moments_close_to_each_other_get_rows_of_their_own():
    guides = zoom(timeline()).guides
    assert [guide.css for guide in guides] == ["fired", "detected", "recovered"]
    assert guides[0].text.startswith("kill fired on rank 1 4.")
    assert guides[0].row != guides[1].row


def test_a_held_fault_is_a_box_on_its_rank():
    held = Span(lane="rank 1", kind="fault", name="hang", start_s=4.2, end_s=6.0, detail="SIGSTOP")
    whole = timeline()
    picture = zoom(msgspec.structs.replace(whole, spans=(*whole.spans, held)))
    assert any(box.css == "fault" and "SIGSTOP" in box.title for box in lane(picture, "rank 1").boxes)


def test_of_many_ranks_the_hit_one_is_among_those_drawn():
    big = timeline(ranks=64, steps=60)
    marks = tuple(msgspec.structs.replace(mark, lane=mark.lane.replace("rank 1", "rank 63")) for mark in big.marks)
    series = Series(msgspec.structs.replace(big, marks=marks))
    names = [each.name for each in overview_picture(series, []).lanes]
    assert len(names) == LANES_MAX and "rank 63" in names
    assert hidden_rank_count(series) == 48


def test_the_overview_frames_what_is_zoomed():
    series = Series(timeline())
    windows = series.incident_windows(verdict())
    frame = overview_picture(series, windows).windows[0]
    assert 84 < frame.x < frame.x + frame.width < 1070


def test_a_run_with_nothing_in_it_has_no_charts():
    series = Series(Timeline(t0_ns=0, end_s=0.0, ranks=()))
    assert step_time_chart(series, 1.5) is None and loss_chart(series) is None


def test_the_step_time_chart_shows_median_and_bound():
    labels = [rule.label for rule in step_time_chart(Series(timeline()), 1.5).rules]
    assert labels[0].startswith("median 22.") and labels[1].startswith("1.5 × 33.")


def test_a_step_far_beyond_the_range_is_drawn_at_the_edge_and_told():
    whole = timeline()
    last = max(whole.steps, key=lambda mark: mark.t_s)
    steps = tuple(msgspec.structs.replace(m, t_s=m.t_s + 4.0) if m.step == last.step else m for m in whole.steps)
    chart = step_time_chart(Series(msgspec.structs.replace(whole, steps=steps)), 1.5)
    assert chart.outliers
    assert chart.notes[0].startswith("1 step above the drawn range (▲); the slowest took 40")
    assert f" {TOP}" in chart.lines[1].path


def test_losses_that_equal_the_control_are_said_to():
    chart = loss_chart(Series(timeline()))
    assert [line.label for line in chart.lines] == ["control", "group 1", "group 2"]
    assert chart.notes == ("All 127 losses drawn equal the control's at the same step.",)
    assert [band.label for band in chart.bands] == ["done twice: steps 41–47"]


def test_the_smallest_difference_from_the_control_is_marked():
    whole = timeline()
    steps = tuple(
        msgspec.structs.replace(m, loss=math.nextafter(m.loss, 9)) if (m.step, m.group) == (80, 1) else m
        for m in whole.steps
    )
    chart = loss_chart(Series(msgspec.structs.replace(whole, steps=steps)))
    assert [rule.label for rule in chart.rules] == ["first difference: step 80"]
    assert chart.notes == ("1 of 120 steps differ from the control, first step 80.",)


def test_without_a_control_nothing_is_said_to_agree():
    chart = loss_chart(Series(msgspec.structs.replace(timeline(), control_loss={})))
    assert chart.notes == ("No control was given: nothing to compare with.",)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_is_told_and_never_drawn(odd):
    whole = timeline()
    steps = tuple(msgspec.structs.replace(m, loss=odd) if m.step == 100 else m for m in whole.steps)
    chart = loss_chart(Series(msgspec.structs.replace(whole, steps=steps)))
    assert chart.notes[0] == "No finite loss at 1 step, first at step 100."
    assert not any(word in line.path + line.points for line in chart.lines for word in ("nan", "inf"))


def test_series_are_thinned_in_the_charts():
    marks = tuple(StepMark(step=n, rank=0, group=0, t_s=n / 50, loss=1 / (n + 1)) for n in range(30_000))
    series = Series(Timeline(t0_ns=0, end_s=601, ranks=(0,), steps=marks))
    for chart in (step_time_chart(series, 1.5), loss_chart(series)):
        assert all(len(line.points.split()) <= POINTS_MAX for line in chart.lines)


def test_the_parts_fill_the_recovery_bar_exactly():
    bars = incident_bars(incident())
    recovery = next(row for row in bars.rows if row.name == "recovery")
    assert bars.segments[0].x == GUTTER
    assert sum(part.width for part in bars.segments) == pytest.approx(recovery.width, abs=0.6)


def test_time_that_no_part_explains_is_shown_as_such():
    parts = (PartTime(name="rendezvous", time_s=1.0, bounded_by="poll=0.5"),)
    segments = incident_bars(incident(parts=parts, recovery_time_s=4.0)).segments
    assert [(part.name, part.time, part.share) for part in segments] == [
        ("rendezvous", "1.00 s", "25.0 %"),
        (REST, "3.00 s", "75.0 %"),
    ]
    assert not segments[-1].explained


def test_an_objective_that_was_missed_is_marked_and_one_far_away_is_told_only():
    rows = {row.name: row for row in incident_bars(incident(), ObjectivePlan(recovery_time_s=2.0)).rows}
    assert rows["recovery"].over and rows["recovery"].objective_x is not None
    rows = {row.name: row for row in incident_bars(incident(), ObjectivePlan(recovery_time_s=60.0)).rows}
    assert not rows["recovery"].over and rows["recovery"].objective_x is None
    assert rows["recovery"].objective == "objective 60 s"


@pytest.mark.parametrize("goal_s", [0.3, 2.7, 3.0, 4.0, 4.8])
def test_the_label_of_an_objective_covers_neither_bar_nor_value(goal_s):
    row = next(r for r in incident_bars(incident(), ObjectivePlan(recovery_time_s=goal_s)).rows if r.name == "recovery")
    if row.label_x is not None:
        width = 6.6 * len(row.objective)
        left = row.label_x if row.label_anchor == "start" else row.label_x - width
        assert GUTTER + row.width <= left and left + width <= 1020


def test_times_that_were_not_seen_are_words_and_not_bars():
    rows = {row.name: row for row in incident_bars(unknown().incidents[0]).rows}
    assert (rows["recovery"].value, rows["recovery"].width) == ("not seen", 0.0)
    assert rows["detection"].value == "≤ 0.21 s"


def test_an_incident_without_any_time_can_be_drawn():
    bars = incident_bars(incident(detection_time_s=None, recovery_time_s=None, catch_up_time_s=None,
                                  full_recovery_time_s=None, parts=()))  # fmt: skip
    assert [row.value for row in bars.rows] == ["not seen"] * 4
