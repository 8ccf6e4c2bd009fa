#!/bin/sh
# A producer as a shell script: prints three samples of each node of my-cluster, one JSON object per line. The
# samples are from now, and from 30 and 60 seconds ago. Only node-1 is hot.
now=$(date +%s)
for at in $((now - 60)) $((now - 30)) "$now"; do
  while read -r node cpu pods; do
    echo "{\"cluster\": \"my-cluster\", \"node\": \"$node\", \"sampled_at_ms\": ${at}000," \
      "\"usage\": {\"cpu\": $cpu, \"memory\": 8589934592}," \
      "\"system_usage\": {\"cpu\": 400, \"memory\": 1073741824}, \"pods\": [$pods]}"
  done <<SAMPLES
node-1 6800 {"namespace": "shop", "name": "web-1", "uid": "pod-web-1", "usage": {"cpu": 3600, "memory": 3221225472}}, {"namespace": "shop", "name": "web-2", "uid": "pod-web-2", "usage": {"cpu": 2800, "memory": 3221225472}}
node-2 1400 {"namespace": "shop", "name": "web-3", "uid": "pod-web-3", "usage": {"cpu": 1000, "memory": 3221225472}}
node-3 400
SAMPLES
done
