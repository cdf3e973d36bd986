{{- define "llmgov.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "llmgov.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "llmgov.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "llmgov.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "llmgov.selector" -}}
app.kubernetes.io/name: {{ include "llmgov.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "llmgov.labels" -}}
{{ include "llmgov.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* llmgov.config is llmgov.yaml: the values, the chart's own settings, and expect_nodes in pools of a fixed number of gateways. */}}
{{- define "llmgov.config" -}}
{{- $own := dict "admin" (dict "listen" ":9090" "token" "${ADMIN_TOKEN}") "state_dir" "/var/lib/llmgov" "policies" (list "/etc/llmgov-policies/*.yaml") }}
{{- if .Values.store }}
{{- $_ := set $own "store" "${STORE_URL}" }}
{{- end }}
{{- $config := mergeOverwrite $own (deepCopy .Values.config) }}
{{- if and .Values.store (not .Values.autoscaling.enabled) }}
{{- range $name, $pool := $config.pools }}
{{- if not (hasKey $pool "expect_nodes") }}
{{- $_ := set $pool "expect_nodes" (int $.Values.replicas) }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml $config }}
{{- end }}
