"""What a worker tells about itself.

metrics   counters and histograms of what happens
observer  looks at the stages every few seconds: gauges, lag, signs of life
health    whether the worker lives, and whether it works
"""
