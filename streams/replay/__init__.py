"""Recorded histories, read again and compared.

recorded          the batches of a journal with the inputs that they applied: an iterator
start             where to begin: with the first batch, or at a checkpoint
verify            all decisions made again, and compared byte by byte: one consumer of `recorded`
first_difference  the input that a difference comes from
diff              the places in which two JSON values differ
report            the result as text and as JSON
"""
