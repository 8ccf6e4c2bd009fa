"""Replays recorded histories, and compares the results.

recorded          iterates over the batches of a journal, with their inputs
start             where a replay starts: at the first batch, or at a checkpoint
verify            applies all batches again, and compares the results byte by byte
first_difference  finds the input that causes a difference
diff              paths at which two JSON values differ
report            the result as text and as JSON
"""
