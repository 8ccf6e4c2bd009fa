"""A real control plane on this machine, without containers: for tests, and for the demo.

    build      the program, built from a Go module and kept in the cache
    process    one part of it as a child process: start, stop, kill, start again
    server     the whole: etcd, API server, controllers and kwok, with users and rights
    users      who asks: tokens, kubeconfigs, the rights of each
    cluster    nodes, pods and their usage, made in large numbers
    audit      what the API server's own log says was done to pods, and by which user

kwok plays the kubelets: a node becomes ready, a pod that is bound runs, one that is deleted goes,
and each pod uses what its annotations say. Everything else is what a cluster runs.
"""
