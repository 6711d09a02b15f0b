"""Does a job's other work: maintenance, checks, promotion, the unmerged view, the warm server. Imports `tables` and
below.
"""
