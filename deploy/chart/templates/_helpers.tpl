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
app.kubernetes.io/name: {{ include "nodewright.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* Ours, with what a user adds or puts in their place; but the selector's. */}}
{{- define "nodewright.labels" -}}
{{- $own := dict "app.kubernetes.io/managed-by" .Release.Service "app.kubernetes.io/version" .Chart.AppVersion -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version) -}}
{{- toYaml (merge (include "nodewright.selector" . | fromYaml) (default dict .Values.additionalLabels) $own) -}}
{{- end -}}

{{- define "nodewright.podLabels" -}}
{{- $given := merge (include "nodewright.selector" . | fromYaml) (default dict .Values.podLabels) -}}
{{- toYaml (merge $given (include "nodewright.labels" . | fromYaml)) -}}
{{- end -}}

{{- define "nodewright.podAnnotations" -}}
{{- /* The node that it runs on is not removed under it. And it starts again with other providers, unlike other settings. */ -}}
{{- $own := dict "cluster-autoscaler.kubernetes.io/safe-to-evict" "false" -}}
{{- $_ := set $own "checksum/providers" (toJson (default dict .Values.providers) | sha256sum) -}}
{{- toYaml (merge (dict) (default dict .Values.podAnnotations) $own) -}}
{{- end -}}

{{/* A default stands only where neither request nor limit is given: it could contradict the other one. Kubernetes takes a
limit without a request for both. */}}
{{- define "nodewright.resources" -}}
{{- $given := default dict .Values.resources -}}
{{- $requests := merge (dict) (default dict $given.requests) -}}
{{- $limits := merge (dict) (default dict $given.limits) -}}
{{- if not (or (hasKey $requests "cpu") (hasKey $limits "cpu")) -}}
{{- $_ := set $requests "cpu" "200m" -}}
{{- end -}}
{{- if not (or (hasKey $requests "memory") (hasKey $limits "memory")) -}}
{{- $_ := set $requests "memory" "400Mi" -}}
{{- $_ := set $limits "memory" "1Gi" -}}
{{- end -}}
{{- toYaml (merge (dict "requests" $requests "limits" $limits) $given) -}}
{{- end -}}

{{/* A number as it was written: 1000000, not Go's 1e+06. */}}
{{- define "nodewright.text" -}}
{{- if kindIs "string" . -}}{{- . -}}{{- else -}}{{- toJson . -}}{{- end -}}
{{- end -}}

{{/* What --node-group-auto-discovery is for a cluster's name: the tags that cluster-autoscaler's chart asks for, too. */}}
{{- define "nodewright.discovery" -}}
{{- $name := .Values.autoDiscovery.clusterName -}}
{{- if eq .Values.cloudProvider "aws" -}}
asg:tag={{ tpl (join "," .Values.autoDiscovery.tags) . }}
{{- else if eq .Values.cloudProvider "azure" -}}
label:cluster-autoscaler-enabled=true,cluster-autoscaler-name={{ $name }}
{{- else -}}
{{- fail (printf "autoDiscovery.clusterName is for aws and azure; for cloudProvider '%s' give autoDiscovery.specs" .Values.cloudProvider) -}}
{{- end -}}
{{- end -}}

{{/* What no schema can say: fails with a sentence. */}}
{{- define "nodewright.check" -}}
{{- range $flag, $where := dict "address" "service.servicePort" "config" "settings" "namespace" "the release's namespace" "dry-run" "mode" "shadow" "mode" "secure-address" "securePage" "tls-cert-file" "securePage" "tls-private-key-file" "securePage" -}}
{{- if hasKey (default dict $.Values.extraArgs) $flag -}}{{- fail (printf "extraArgs.%s: the chart gives this flag, from %s" $flag $where) -}}{{- end -}}
{{- end -}}
{{- if hasKey (default dict .Values.settings) "providers" -}}{{- fail "settings.providers: providers is a value of its own, beside settings" -}}{{- end -}}
{{- if hasKey (default dict .Values.extraEnv) "NODEWRIGHT_NAMESPACE" -}}
{{- fail "extraEnv.NODEWRIGHT_NAMESPACE: the chart gives this, from the release's namespace" -}}
{{- end -}}
{{- if and .Values.securePage.enabled (not .Values.securePage.secretName) -}}
{{- fail "securePage.secretName: is empty, and the page needs a certificate" -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (not .Values.service.create) -}}
{{- fail "serviceMonitor.enabled: without service.create there is nothing for it to find" -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled .Values.podMonitor.enabled -}}
{{- fail "podMonitor.enabled: serviceMonitor.enabled is set, too, and every metric would be counted twice" -}}
{{- end -}}
{{- end -}}

{{- define "nodewright.serviceAccount" -}}
{{- if .Values.rbac.serviceAccount.create -}}
{{- default (include "nodewright.fullname" .) .Values.rbac.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.rbac.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* A setting that the chart must know, from the place where it is set: flag, variable, file, then default. */}}
{{- define "nodewright.setting" -}}
{{- $root := index . 0 -}}{{- $flag := index . 1 -}}{{- $default := index . 2 -}}
{{- $settings := default dict $root.Values.settings -}}
{{- $env := default dict $root.Values.extraEnv -}}
{{- $args := default dict $root.Values.extraArgs -}}
{{- $found := index $settings $flag -}}
{{- range $section := values $settings -}}
{{- if and (kindIs "map" $section) (hasKey $section $flag) -}}{{- $found = index $section $flag -}}{{- end -}}
{{- end -}}
{{- $variable := printf "NODEWRIGHT_%s" ($flag | upper | replace "-" "_") -}}
{{- if hasKey $env $variable -}}{{- $found = index $env $variable -}}{{- end -}}
{{- if hasKey $args $flag -}}
{{- $found = index $args $flag -}}{{- if kindIs "invalid" $found -}}{{- $found = true -}}{{- end -}}
{{- end -}}
{{- default $default $found -}}
{{- end -}}
