"""`loadstream demo`: half a day of a simulated cluster in a minute, through a real worker.

    runner    runs the day through a broker and a worker, and again under other contenders
    view      the display during the run
    evidence  the result

The folder `policies` has the policies, with the demo's times. Cluster, figures and tables are those of the closed loop (`simulation.closed_loop`).
"""
