"""The command `loadstream`: the composition root, the only package that joins streams and connectors.

__main__              all command groups together
worker                `worker`: both stages, fed by Kafka
replay                `replay`: the journal decided again and compared
broker                `broker`: a local broker; foreground: the running one
kafka_topics          `topics`, `produce`; consumer_reading: a record read as its consumer reads it
tail                  `tail`: records of a topic
partitions            `partition reset`
policy                `policy`; policy_draft: `policy init`; policy_import: `policy import`;
                      policy_files: files that they read and write
why_not               `why-not`
migrations            `migrate`, `drain`, `migration`, `migrations`; migration_requests: one request
                      written, and its answers followed
kubernetes            `kubernetes`: the duties; kubernetes_demo: `kubernetes demo`;
                      kubernetes_arguments: options of both
agent                 `agent`: usage of this node
simulate              `simulate`: a simulated cluster
demo                  `demo`
closed_loop           `closed-loop`
schema_export         `schemas`
arguments             arguments checked by the schema of the record that they become part of
cluster_warnings      warnings about a cluster that nothing reads or names
failures              the connection of a command, and its expected failures as sentences
progress              a file with a progress bar
"""
