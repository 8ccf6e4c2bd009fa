"""Local brokers for trials, tests and benchmarks.

embedded       librdkafka's mock cluster, inside this process
foreground     `loadstream broker`: runs a broker until it is stopped
server         a real Apache Kafka with one or several brokers
storage        the Java process of one broker, and its formatted directory
distribution   Kafka's jars, downloaded once
"""
