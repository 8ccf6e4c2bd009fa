"""`loadstream demo`: half a day of a simulated cluster in a minute, through a real worker.

    runner    broker, worker and the run in lock-step, and the same day under other contenders
    view      the display during the run
    evidence  the result

The folder `policies` has the policies, with the demo's times. Cluster, figures and tables are those of the closed loop (`simulation.closed_loop`).
"""
