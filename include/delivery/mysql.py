"""A table of MySQL or MariaDB as a sink: rows and progress in one ordinary transaction.

As for PostgreSQL, the progress row is locked and compared first, and a lock of the session says who delivers. Rows come
by LOAD DATA from a stream, into a temporary table of the session.

Source: MySQL's and MariaDB's manuals, "LOAD DATA", "INSERT ... ON DUPLICATE KEY UPDATE", "GET_LOCK".
"""
