"""Both stages in one process, without Kafka and Faust: for simulations.

pipeline  the two stages of one partition, and what they write to each other
"""
