"""`loadstream demo`: half a day of a simulated cluster in a minute, through a real worker.

    runner    broker and worker, the run in lock-step with it, and the same under other contenders
    view      what is shown during the run
    evidence  what is shown at its end
    policies  the policies, with the demo's times

The cluster is that of the closed loop (`simulation.closed_loop`), and so are figures and charts.
"""
