"""Uses Spark itself: sessions, classes of errors, commits with a batch's marker. Imports `include`."""
