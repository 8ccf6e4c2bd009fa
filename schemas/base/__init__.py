"""Parts that all messages share.

message            base classes, and types of names, amounts and times
refusals           why a record is not applied
validation_errors  describes invalid records to their producers
contract           JSON Schema of a message
docstrings         field docstrings, as descriptions in the JSON Schema
limits             largest records that are read and written; splits longer content
quantities         Kubernetes quantities as exact integers
capacity           capacity of a node, with or without overcommitment
printable          makes foreign text safe to print
"""
