"""Uses Spark itself: sessions, classes of errors, commits with a batch's marker. Has the form of a job's reports, too.
Imports `include`.
"""
