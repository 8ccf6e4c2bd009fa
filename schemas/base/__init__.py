"""What every message has in common.

message         base class of messages, names, amounts and times
refusals        why a record is not applied
complaints      what is wrong with a record, in a sentence
contract        JSON Schema of a message
docstrings      what the string below a field says of it
limits          how long a record may be
pieces          longer content, cut into pieces
quantities      Kubernetes quantities to exact integers
capacity        what a node has to give, with overcommitment or without
printable       text of others as text and nothing else
"""
