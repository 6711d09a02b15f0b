"""Changes Delta tables without Spark, one commit each: see `Change`.

New rows go into one file, and deletion vectors hide what they replace.
"""
