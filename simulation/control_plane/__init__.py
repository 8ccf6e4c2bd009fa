"""A real control plane on this machine, without containers: for tests and for the demo.

    build      builds the program from a Go module into the cache
    process    one part as a child process: start, stop, kill, restart
    server     all parts: etcd, API server, controllers and kwok, with users and rights
    users      tokens, kubeconfigs and rights
    cluster    nodes, pods and their usage, in large numbers
    audit      bindings, evictions and deletions of pods by user, from the API server's audit log

kwok simulates the kubelets: nodes become ready, bound pods run, deleted pods disappear, and the
annotations of a pod set its usage. All other parts are real.
"""
