"""Mending a partition from which no worker starts: `command` is what a person runs, `mender` reads and writes Kafka."""
