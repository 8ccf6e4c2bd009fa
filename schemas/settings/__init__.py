"""Settings that all processes share.

connection    Kafka: address, encryption, identity of every client
environment   describes wrong and unknown environment variables
announcement  the file in which a local broker announces its address
"""
