{{/* Labels that select the pods of a component: (list root component) or (list root component cluster). */}}
{{- define "loadstream.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: loadstream
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- if gt (len .) 2 }}
loadstream/cluster: {{ index . 2 }}
{{- end }}
{{- end }}

{{/* Labels of any object; the same arguments. */}}
{{- define "loadstream.labels" -}}
{{- $root := index . 0 -}}
{{ include "loadstream.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ $root.Chart.Name }}-{{ $root.Chart.Version }}
{{- end }}

{{/* Metadata of an object in the release's namespace: (list name root component), (list name root component cluster). */}}
{{- define "loadstream.metadata" -}}
name: {{ index . 0 }}
namespace: {{ (index . 1).Release.Namespace }}
labels:
  {{- include "loadstream.labels" (rest .) | nindent 2 }}
{{- end }}

{{/* Annotations of a pod whose metrics no PodMonitor collects: (list root port). */}}
{{- define "loadstream.scrape" -}}
{{- if not (index . 0).Values.monitoring.podMonitors -}}
prometheus.io/scrape: "true"
prometheus.io/port: {{ index . 1 | quote }}
{{- end }}
{{- end }}

{{- define "loadstream.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ default $.Chart.AppVersion .tag }}{{ end }}
{{- end }}
{{- end }}

{{/* Fields of the spec of every pod. */}}
{{- define "loadstream.pod" -}}
# Variables that Kubernetes makes of Services look like settings of loadstream.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Fields of the spec of pods of Deployments and Jobs: where they run. */}}
{{- define "loadstream.scheduling" -}}
# Not loadstream: what places pods must not wait for itself.
schedulerName: default-scheduler
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Spread the pods of a component over nodes; arguments as of loadstream.selector. */}}
{{- define "loadstream.spread" -}}
topologySpreadConstraints:
  - topologyKey: kubernetes.io/hostname
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "loadstream.selector" . | nindent 8 }}
{{- end }}

{{/* Fields of every container. */}}
{{- define "loadstream.container" -}}
image: {{ include "loadstream.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{- define "loadstream.bootstrapServers" -}}
{{- if .Values.kafka.trial.enabled -}}
{{ .Release.Name }}-kafka.{{ .Release.Namespace }}:9092
{{- else -}}
{{ required "kafka.bootstrapServers is required, or kafka.trial.enabled" .Values.kafka.bootstrapServers }}
{{- end }}
{{- end }}

{{/* Secret by which a process logs in at Kafka: (list root process); empty without TLS certificate and SASL. */}}
{{- define "loadstream.kafkaSecret" -}}
{{- $kafka := (index . 0).Values.kafka -}}
{{- if or $kafka.sasl.mechanism (and $kafka.tls.enabled $kafka.tls.clientCertificate) -}}
{{ required "kafka.secret is required, to log in at Kafka" (get $kafka.secrets (index . 1) | default $kafka.secret) }}
{{- end }}
{{- end }}

{{/* Environment by which a process reaches Kafka: (list root process). */}}
{{- define "loadstream.kafkaEnvironment" -}}
{{- $root := index . 0 -}}
{{- $kafka := $root.Values.kafka -}}
- name: LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS
  value: {{ include "loadstream.bootstrapServers" $root | quote }}
- name: LOADSTREAM_KAFKA_PARTITIONS
  value: {{ $kafka.partitions | quote }}
{{- if or $kafka.trial.enabled $kafka.replicationFactor }}
- name: LOADSTREAM_KAFKA_REPLICATION_FACTOR
  value: {{ ternary 1 $kafka.replicationFactor $kafka.trial.enabled | quote }}
{{- end }}
{{- if or $kafka.tls.enabled $kafka.sasl.mechanism }}
- name: LOADSTREAM_KAFKA_SECURITY_PROTOCOL
  value: {{ ternary "SASL_" "" (ne $kafka.sasl.mechanism "") }}{{ ternary "SSL" "PLAINTEXT" $kafka.tls.enabled }}
{{- end }}
{{- if and $kafka.tls.enabled $kafka.tls.caSecret }}
- name: LOADSTREAM_KAFKA_CA_FILE
  value: /etc/loadstream/kafka/ca.crt
{{- end }}
{{- if and $kafka.tls.enabled $kafka.tls.clientCertificate }}
- name: LOADSTREAM_KAFKA_CLIENT_CERTIFICATE_FILE
  value: /etc/loadstream/kafka/tls.crt
- name: LOADSTREAM_KAFKA_CLIENT_KEY_FILE
  value: /etc/loadstream/kafka/tls.key
{{- end }}
{{- with $kafka.sasl.mechanism }}
- name: LOADSTREAM_KAFKA_SASL_MECHANISM
  value: {{ . }}
- name: LOADSTREAM_KAFKA_SASL_USERNAME
  valueFrom:
    secretKeyRef:
      name: {{ include "loadstream.kafkaSecret" $ }}
      key: username
- name: LOADSTREAM_KAFKA_SASL_PASSWORD_FILE
  value: /etc/loadstream/kafka/password
{{- end }}
{{- end }}

{{/* Volume with certificates and password of a process, if any: (list root process). */}}
{{- define "loadstream.kafkaVolume" -}}
{{- $kafka := (index . 0).Values.kafka -}}
{{- $secret := include "loadstream.kafkaSecret" . -}}
{{- if or $secret (and $kafka.tls.enabled $kafka.tls.caSecret) -}}
- name: kafka
  projected:
    sources:
      {{- if and $kafka.tls.enabled $kafka.tls.caSecret }}
      - secret:
          name: {{ $kafka.tls.caSecret }}
          items:
            - {key: ca.crt, path: ca.crt}
      {{- end }}
      {{- if $secret }}
      - secret:
          name: {{ $secret }}
          items:
            {{- if $kafka.sasl.mechanism }}
            - {key: password, path: password}
            {{- end }}
            {{- if and $kafka.tls.enabled $kafka.tls.clientCertificate }}
            - {key: tls.crt, path: tls.crt}
            - {key: tls.key, path: tls.key}
            {{- end }}
      {{- end }}
{{- end }}
{{- end }}

{{/* Its mount, if there is one; the same arguments. */}}
{{- define "loadstream.kafkaMount" -}}
{{- if include "loadstream.kafkaVolume" . -}}
- name: kafka
  mountPath: /etc/loadstream/kafka
  readOnly: true
{{- end }}
{{- end }}

{{/* Name of the cluster that the chart is installed in, if it is one of the clusters. */}}
{{- define "loadstream.ownCluster" -}}
{{- $own := list -}}
{{- range $cluster, $settings := .Values.clusters -}}
{{- if not $settings.kubeconfigSecret -}}
{{- $own = append $own $cluster -}}
{{- end -}}
{{- end -}}
{{- if gt (len $own) 1 -}}
{{- fail (printf "clusters %s have no kubeconfigSecret; only the cluster that the chart is installed in needs none" (join ", " $own)) -}}
{{- end -}}
{{ join "" $own }}
{{- end }}

{{/* Non-empty if a process runs for a cluster: (list settings process). */}}
{{- define "loadstream.runs" -}}
{{- $defaults := dict "watch" true "collect" true -}}
{{- if eq "watch" (index . 1) -}}
true
{{- else if dig (index . 1) (get $defaults (index . 1) | default false) (index . 0) -}}
true
{{- end }}
{{- end }}

{{/* PodDisruptionBudget of a Deployment: (list replicas name root component), and the cluster. */}}
{{- define "loadstream.budget" -}}
{{- if and (index . 2).Values.podDisruptionBudgets (gt (int (index . 0)) 1) }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "loadstream.metadata" (slice . 1) | nindent 2 }}
spec:
  maxUnavailable: 1
  # A pod that does not get ready holds up no drain.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "loadstream.selector" (slice . 2) | nindent 6 }}
{{- end }}
{{- end }}

{{/* Job that runs a command once for each change of its spec and content: (dict "root" "process" "args" "labels"),
for a policy also "name", "content" and the "configMap" that holds it. The name carries a hash: a Job cannot change. */}}
{{- define "loadstream.job" -}}
{{- $spec := include "loadstream.jobSpec" . -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .root.Release.Name }}-{{ .name }}-{{ sha256sum (print $spec .content) | trunc 8 }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "loadstream.labels" .labels | nindent 4 }}
spec:
  {{- $spec | nindent 2 }}
{{- end }}

{{- define "loadstream.jobSpec" -}}
{{- $process := index .labels 1 -}}
{{- $volume := include "loadstream.kafkaVolume" (list .root $process) -}}
# Kafka may start at the same time: with growing pauses, about 40 minutes.
backoffLimit: 12
template:
  metadata:
    labels:
      {{- include "loadstream.selector" .labels | nindent 6 }}
  spec:
    restartPolicy: OnFailure
    automountServiceAccountToken: false
    {{- include "loadstream.pod" .root | nindent 4 }}
    {{- include "loadstream.scheduling" .root | nindent 4 }}
    containers:
      - name: {{ $process }}
        {{- include "loadstream.container" .root | nindent 8 }}
        args:
          {{- toYaml .args | nindent 10 }}
        env:
          {{- include "loadstream.kafkaEnvironment" (list .root $process) | nindent 10 }}
        resources:
          requests: {cpu: 50m, memory: 96Mi}
          limits: {memory: 256Mi}
        {{- if or $volume .configMap }}
        volumeMounts:
          {{- with include "loadstream.kafkaMount" (list .root $process) }}
          {{- . | nindent 10 }}
          {{- end }}
          {{- if .configMap }}
          - {name: policy, mountPath: /etc/loadstream/policy, readOnly: true}
          {{- end }}
    volumes:
      {{- with $volume }}
      {{- . | nindent 6 }}
      {{- end }}
      {{- with .configMap }}
      - name: policy
        configMap:
          name: {{ . }}
      {{- end }}
        {{- end }}
{{- end }}
