"""Opens Delta tables, logs and files without a JVM. Imports `protocol`."""
