"""How a line of the job's log is read: its form, its stamp, and what should have been there and is not.

Pure values; the file itself is `launcher_log`'s, and what a message means is `model.nvrx_messages`'s.
"""
