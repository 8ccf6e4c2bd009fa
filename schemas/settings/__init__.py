"""Settings that all processes share.

connection    Kafka: address, encryption, identity of every client
environment   reads environment variables; describes wrong and unknown ones
announcement  the file in which a local broker announces its address
"""
