"""Reads sources of records: Kafka, the archive, a landing; and asks the schema registry. Imports `pipeline_file`,
`lake` and below.
"""
