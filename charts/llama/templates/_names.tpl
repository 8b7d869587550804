{{/* Works with a made-up context too: the platform's chart asks for this name. */}}
{{- define "llama.name" -}}
{{- $full := printf "%s-llama" .Release.Name -}}
{{- if get .Values "fullnameOverride" -}}{{ $full = get .Values "fullnameOverride" }}
{{- else if get .Values "nameOverride" -}}{{ $full = printf "%s-%s" .Release.Name (get .Values "nameOverride") }}
{{- end -}}
{{- if gt (len $full) 48 }}{{ printf "%s-%s" (trunc 39 $full | trimSuffix "-") (sha256sum $full | trunc 8) }}{{ else }}{{ $full }}{{ end -}}
{{- end }}

{{- define "llama.selector" -}}
app.kubernetes.io/name: llama
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: llama
{{- end }}

{{/* The chart's own labels win over commonLabels: selectors and policies go by them. */}}
{{- define "llama.labels" -}}
{{- $own := include "llama.selector" . | fromYaml -}}
{{- $_ := set $own "app.kubernetes.io/part-of" "yardmaster" -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" .Release.Service -}}
{{- $_ := set $own "app.kubernetes.io/version" .Chart.AppVersion -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_") -}}
{{- toYaml (mergeOverwrite (deepCopy (default dict .Values.commonLabels)) $own) -}}
{{- end }}

{{/* (dict "root" $ "suffix" "key" "annotations" dict) */}}
{{- define "llama.metadata" -}}
metadata:
  name: {{ include "llama.name" .root }}{{ with .suffix }}-{{ . }}{{ end }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "llama.labels" .root | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- define "llama.image" -}}
{{- $registry := default (default "" .image.registry) .root.Values.global.imageRegistry | trimSuffix "/" -}}
{{- $path := ternary .image.repository (printf "%s/%s" $registry .image.repository) (empty $registry) -}}
{{- if .image.digest }}{{ $path }}@{{ .image.digest }}{{ else }}{{ $path }}:{{ default .root.Chart.AppVersion .image.tag }}{{ end -}}
{{- end }}

{{- define "llama.keySecret" -}}
{{ default (printf "%s-key" (include "llama.name" .)) .Values.apiKey.existingSecret }}
{{- end }}

{{/* The key that the chart made, base64: kept once made, empty where there is no cluster to look at. */}}
{{- define "llama.keyData" -}}
{{- if not (hasKey .Values "generated__") -}}
{{- $had := lookup "v1" "Secret" .Release.Namespace (printf "%s-key" (include "llama.name" .)) -}}
{{- $data := dig "data" .Values.apiKey.key "" $had -}}
{{- if and (not $data) (or (lookup "v1" "Namespace" "" .Release.Namespace) (lookup "v1" "Namespace" "" "kube-system")) -}}
{{- $data = randAlphaNum 40 | b64enc -}}
{{- end -}}
{{- $_ := set .Values "generated__" $data -}}
{{- end -}}
{{- get .Values "generated__" -}}
{{- end }}

{{- define "llama.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  capabilities:
    drop: [ALL]
{{- end }}

{{/* A value as text. Helm reads every number of a file as a float, and would print a large one as 1e+07. */}}
{{- define "llama.text" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) -}}{{ printf "%.0f" . }}
{{- else -}}{{ toString . }}{{- end -}}
{{- end }}

{{- define "llama.grace" -}}
{{- $least := add (int .Values.drainSeconds) 30 -}}
{{- if kindIs "invalid" .Values.terminationGracePeriodSeconds -}}{{ $least }}
{{- else if lt (int .Values.terminationGracePeriodSeconds) (int $least) -}}
{{- fail (printf "terminationGracePeriodSeconds is %d; it must be at least drainSeconds + 30 = %d, or running requests are cut off" (int .Values.terminationGracePeriodSeconds) (int $least)) -}}
{{- else -}}{{ int .Values.terminationGracePeriodSeconds }}{{- end -}}
{{- end }}
