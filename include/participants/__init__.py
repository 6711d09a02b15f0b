"""What a batch writes: the catalog of its participants, and where each stands. Imports `pipeline_file` and below."""
