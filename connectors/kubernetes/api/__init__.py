"""One API server, asked in raw JSON.

    access        where it is and who asks: a kubeconfig, or the service account of the pod
    plugin        credentials from a plugin's process, which ends in any case
    client_parts  what is used of kubernetes-asyncio, without the rest of it
    errors        what goes wrong with a request, and the server's own words for it
    session       connections, made anew when certificates have changed; proxies
    server        requests, pages of a list, the lines of a watch
    list_watch    one collection, followed for ever: a list, then its changes

Nothing here knows a kind of object. kubernetes-asyncio reads kubeconfigs, refreshes credentials and
makes the TLS session; its typed models are not used, since they cost more than ten times the time
and the memory of the JSON itself.
"""
