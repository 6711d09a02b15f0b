"""Asks who holds records what they hold: Kafka, the archive, a landing, a schema registry. Imports `pipeline_file`,
`lake` and below.
"""
