"""The command `loadstream`: the composition root, the only package that joins streams and connectors.

__main__              starts the command
commands              all command groups and programs together
worker                `worker`: both stages, fed by Kafka
agent                 `agent`: usage of this node
broker                `broker`: a local broker; foreground: the running one
simulate              `simulate`: a simulated cluster
demo                  `demo`
closed_loop           `closed-loop`
cluster               `cluster`: pause, resume, why-not
node                  `node`: drain, undrain
migration             `migration`; migration_requests: one request written, and its answers followed
policy                `policy`; policy_draft: `policy init`; policy_import: `policy import`;
                      policy_files: files that they read and write; policy_records: records written
topic                 `topic`; tail: `topic tail`; consumer_reading: a record read as its consumer
                      reads it
partition             `partition reset`
replay                `replay verify`: the journal decided again and compared
kubernetes            `kubernetes`: the duties; kubernetes_demo: `kubernetes demo`;
                      kubernetes_arguments: options of both
schema                `schema export`
command               how a command is declared
arguments             arguments checked by the schema of the record that they become part of
cluster_warnings      warnings about a cluster that nothing reads or names
failures              the connection of a command, and its expected failures as sentences
progress              a file with a progress bar
"""
