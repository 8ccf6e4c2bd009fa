"""What all commands share.

command    registers commands, connects them to Kafka, and prints expected failures
arguments  arguments checked by the schema of the record that contains them
warnings   warnings about a cluster without a worker or without producers
files      files that commands read and write
exit_codes exit codes of all commands
"""
