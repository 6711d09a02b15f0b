"""The classic examples of sinks, with their faults: each runs the real system and ends with a verdict."""
