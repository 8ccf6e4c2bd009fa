"""`loadstream demo`: a whole cluster in a minute, through a real worker.

scenario ── what is there, what comes, under which policy
session ─── what is sent at each moment, and what the answers cause
observed ── what the answers say: nodes, decisions, counts      relief ── the same of rebalancing
view, plain ── while it runs        summary, picture ── when it is over
runner ──── broker, worker process, clock: everything that touches the outside
"""
