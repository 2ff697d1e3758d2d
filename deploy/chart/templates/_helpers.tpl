{{- define "nodewright.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "nodewright.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "nodewright.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "nodewright.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "nodewright.selector" -}}
app.kubernetes.io/name: {{ include "nodewright.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "nodewright.labels" -}}
{{ include "nodewright.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "nodewright.serviceAccount" -}}
{{- if .Values.rbac.serviceAccount.create -}}
{{- default (include "nodewright.fullname" .) .Values.rbac.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.rbac.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* A setting that the chart must know, wherever somebody gave it: flag, then default. */}}
{{- define "nodewright.setting" -}}
{{- $root := index . 0 -}}{{- $flag := index . 1 -}}{{- $default := index . 2 -}}
{{- $found := index $root.Values.settings $flag -}}
{{- range $section := values $root.Values.settings -}}
{{- if and (kindIs "map" $section) (hasKey $section $flag) -}}{{- $found = index $section $flag -}}{{- end -}}
{{- end -}}
{{- if hasKey $root.Values.extraArgs $flag -}}{{- $found = index $root.Values.extraArgs $flag -}}{{- end -}}
{{- default $default $found -}}
{{- end -}}
