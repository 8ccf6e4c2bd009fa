"""Golden cases: scenarios whose exact results are known, run through the functions that the agent calls.

cases        finds and reads the files, compares, reports
loadaware    scenarios of the load-aware filter and score
lownodeload  scenarios of rebalancing
objects      API objects of scenarios as messages
times        their times in milliseconds, in the same order
comparison   what answers are compared by
"""
