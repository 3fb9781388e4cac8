"""Events to lineage, incidents, checks and verdict. Values in, values out: opens no file, reads no clock.

`judge.judge.judge` gives a verdict, `judge.control.control_of` a witness, `judge.progress.Live` follows a running job.
"""
