#!/bin/sh
# A pod that wants a node, asked for now.
echo "{\"cluster\": \"my-cluster\", \"requested_at_ms\": $(date +%s)000, \"pod\": {\"namespace\": \"shop\"," \
  "\"name\": \"cart-1\", \"uid\": \"pod-cart-1\", \"scheduler\": \"loadstream\"," \
  "\"containers\": [{\"requests\": {\"cpu\": \"1\", \"memory\": \"2Gi\"}}]}}"
