"""`policy import`: a policy from the configuration of another scheduler or descheduler.

    FILE ──▶ documents ──▶ scheduler, koordinator, descheduler, openshift ──▶ translation ──▶ output

Every field of a configuration has a rule in a table: it becomes a field of the policy, another part
of the system handles it, or it is lost. A field without a rule is an error.

documents    finds configurations in a file: in ConfigMaps, Helm values, lists and JSON
translation  the policy so far, the report, and rules of fields
profiles     plugins and arguments of a profile; arguments whose names the policy has kept
scheduler    KubeSchedulerConfiguration
koordinator  DeschedulerConfiguration, and the ConfigMap slo-controller-config
descheduler  DeschedulerPolicy of the Kubernetes descheduler
openshift    KubeDescheduler
unsupported  plugins that loadstream does not have, and what to use instead
output       the policy as YAML with the line that each value came from
"""
