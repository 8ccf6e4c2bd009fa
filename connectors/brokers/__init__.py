"""Local brokers for trials, tests and benchmarks.

embedded       librdkafka's mock cluster, inside this process
foreground     `loadstream broker`: runs a broker until it is stopped
server         a real Apache Kafka with one or several brokers
process        the Java process of one broker
storage        formats the directory of a broker
class_archive  class archive for a faster start
distribution   Kafka's jars, downloaded once
"""
