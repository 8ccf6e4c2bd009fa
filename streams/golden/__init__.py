"""Golden cases: scenarios whose exact results are known, run through the functions that the agent calls.

cases        finds and reads the files, compares, reports
loadaware    scenarios of the load-aware filter and score
"""
