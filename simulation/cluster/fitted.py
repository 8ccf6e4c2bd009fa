"""Parameters of the load model, fitted to measured load.

They come from the machine usage of the Alibaba 2018 cluster trace (cluster-trace-v2018): 16
production machines of 96 cores (m_1932 to m_1947) over 8 days, 100,002 readings, 14 of the machines
busy. `simulation.cluster.fit` says how each number is computed; `python -m
simulation.cluster.fit DIR` prints them again from a directory with the trace. What no machine of
the trace does, and is therefore chosen and not fitted, stands where the cluster is put together
(`simulation.cluster.machines`).
"""

from simulation.cluster.load import LoadParameters

#: Hour 0 is the beginning of the trace, whose time of day is not published. Its busiest hour is 6,
#: and the memory of these machines is as good as full all day.
ALIBABA_2018 = LoadParameters(
    cpu_busy_mean=0.396,
    cpu_busy_spread=0.0388,
    cpu_idle_mean=0.0516,
    idle_share=0.125,
    cpu_hot_level=0.795,
    hourly=(
        0.85, 0.87, 0.86, 0.95, 1.05, 1.23, 1.57, 1.31, 1.22, 1.23, 1.11, 1.17,
        1.06, 1.01, 0.98, 0.92, 0.85, 0.87, 0.81, 0.80, 0.84, 0.87, 0.79, 0.76,
    ),
    noise_deviation=0.251,
    slow_share=0.409,
    slow_shared=0.791,
    slow_time_s=13410.0,
    fast_time_s=97.0,
    bursts_per_day=7.99,
    burst_time_s=137.0,
    burst_least=0.7,
    burst_height=1.0,
    memory_mean=0.894,
    memory_spread=0.0331,
    memory_deviation=0.0457,
    memory_time_s=10069.0,
)  # fmt: skip
