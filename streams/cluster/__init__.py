"""The cluster stage: one writer per cluster that knows its nodes and pods and decides where pods go.

demand, priority, estimate   what a pod asks for and is expected to use
metric, thresholds, load     what a node uses, and with its pods is expected to use
node                         one node: what Kubernetes says, what is held there
inventory                    all nodes and pods of a cluster
plugins                      filters and scores, each with its own columns
ranking, stretch, placer     all nodes judged for a kind of pod, and kept up to date
pending                      requests that wait
reservations                 when room that was taken for a pod is given up
unplaceable                  pods that are not to be placed, whatever nodes there are
placement                    requests in, decisions out
explain                      decisions as messages that say why
state                        one cluster: applies records, decides
tables                       state to table rows and back
stage                        one partition: a pure fold over records
agent                        the only module that knows Faust
"""
