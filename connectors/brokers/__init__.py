"""Brokers to run.

embedded       librdkafka's mock cluster, inside this process
foreground     one of these until it is stopped, announced to other commands
server         a real Apache Kafka, of one broker or several
process        one Java process of it
storage        its formatted directory
class_archive  its classes, ready to use
distribution   the jars, fetched once
"""
