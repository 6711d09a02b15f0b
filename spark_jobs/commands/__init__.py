"""What else a job does: maintenance, checks, promotion, the unmerged view, the warm server. Imports `tables` and
below.
"""
