"""The client of one API server: raw JSON in, raw JSON out.

    access      address and credentials: a kubeconfig, or the service account of the pod
    errors      errors of requests, with the server's messages
    session     connections, which are replaced when certificates change; proxies
    server      requests, pages of a list, lines of a watch
    list_watch  lists and watches one collection, forever
    times       times of objects

Nothing here knows kinds of objects. kubernetes-asyncio reads kubeconfigs, refreshes credentials and
configures TLS. Its typed models are not used, because they need more than ten times the time and memory
of the JSON itself.
"""
