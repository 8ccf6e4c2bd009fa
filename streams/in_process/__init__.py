"""Both stages in one process, without Kafka and Faust: for simulations.

pipeline  the two stages of one partition, and the records between them
"""
