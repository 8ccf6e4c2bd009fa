"""`policy import`: a policy from the configuration of another scheduler or descheduler.

    FILE ──▶ documents ──▶ scheduler, koordinator, descheduler, openshift ──▶ translation ──▶ output

A table has a rule for every field of a configuration. A field is taken over into the policy, is handled
elsewhere (by another part of loadstream), or is lost. A field without a rule is an error.

documents    finds configurations in a file: in ConfigMaps, Helm values, lists and JSON
translation  the policy so far, the report, and rules of fields
profiles     plugins of a profile, and arguments that have the same names in a policy
scheduler    KubeSchedulerConfiguration
koordinator  DeschedulerConfiguration, and the ConfigMap slo-controller-config
descheduler  DeschedulerPolicy of the Kubernetes descheduler
openshift    KubeDescheduler
unsupported  plugins that loadstream does not have, and what to use instead
output       the policy as YAML, with the source line of each value
"""
