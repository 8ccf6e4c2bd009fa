#!/bin/sh
# Prints a scheduling request of one pod, with the current time.
echo "{\"cluster\": \"my-cluster\", \"requested_at_ms\": $(date +%s)000, \"pod\": {\"namespace\": \"shop\"," \
  "\"name\": \"cart-1\", \"uid\": \"pod-cart-1\", \"scheduler\": \"loadstream\"," \
  "\"containers\": [{\"requests\": {\"cpu\": \"1\", \"memory\": \"2Gi\"}}]}}"
