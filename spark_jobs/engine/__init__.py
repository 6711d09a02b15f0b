"""What Lakemark asks of Spark itself: sessions, errors told apart, marked commits. Imports `include`."""
