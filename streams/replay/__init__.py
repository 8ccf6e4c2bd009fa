"""Replays the batches of a journal, and compares the results.

recorded          iterates over the batches of a journal, with their inputs
start             chooses the start of a replay: the first batch, or a checkpoint
verify            applies all batches again, and compares the results byte by byte
first_difference  finds the input that causes a difference
diff              finds the paths at which two JSON values differ
report            formats the result as text and as JSON
"""
