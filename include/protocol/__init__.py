"""Decides, without doing: planning, guards, settlement, generations, counts, maintenance. Imports nothing but the
standard library, and does no I/O.
"""
