"""Settings that all processes share.

connection    how to reach Kafka: settings of every client
environment   what is wrong with variables that settings are read from
announcement  where a local broker writes its address
"""
