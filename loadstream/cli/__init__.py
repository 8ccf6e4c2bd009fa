"""What all commands are made of.

command    how a command is declared, connects to Kafka, and fails with a sentence
arguments  arguments checked by the schema of the record that they become part of
warnings   warnings about a cluster that no worker reads or no producer names
files      files that commands read and write, with a progress bar where there is a terminal
"""
