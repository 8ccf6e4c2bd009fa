"""Long random histories of all inputs, valid, borderline and broken, against both stages.

    inputs (`cluster_inputs`, `usage_inputs`: worlds, policies, limits, broken bytes)
        ──▶ history (records and cuts) ──▶ trial (a stage that never ends, beside workers that restart)
        ──▶ checks ──▶ coverage, or a failure and the shortest history that shows it

One seed is one history for each stage. Hypothesis finds small things in small pieces; this finds
what takes thousands of records to come about, which is why records are made in place and as fast as
the stages take them. What is not tried: brokers, time and processes, which are those of
`tests/chaos`.
"""
