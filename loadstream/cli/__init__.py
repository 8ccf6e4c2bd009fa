"""Parts that all commands share.

command    registers commands, connects them to Kafka, prints warnings and expected failures
arguments  arguments checked by the schema of the record that contains them
files      files that commands read and write
"""
