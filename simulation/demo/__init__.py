"""`loadstream demo`: half a day of a simulated cluster in a minute, through a real worker.

    runner    runs the day through a broker and a worker, and again under other contenders
    view      the display during the run
    evidence  the result

`policies` has the policies, whose times fit the demo. Cluster, figures and tables come from
`simulation.closed_loop`.
"""
