{{/* `<release>-<chart>`, or what the values say. Never cut: cutting happens once, with the component's name in it. */}}
{{- define "yardmaster.base" -}}
{{- if .Values.fullnameOverride -}}{{ .Values.fullnameOverride | trimSuffix "-" }}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name }}{{ .Release.Name }}{{ else }}{{ printf "%s-%s" .Release.Name $name }}{{ end -}}
{{- end -}}
{{- end }}

{{/*
The name of one component's objects. 52 characters at most: a StatefulSet's pods carry its name and ten more characters
in a label. What is cut off stays in a hash, so that two long releases do not meet.
(dict "root" $ "component" "api")
*/}}
{{- define "yardmaster.name" -}}
{{- $full := printf "%s-%s" (include "yardmaster.base" .root) .component -}}
{{- if gt (len $full) 52 -}}
{{- printf "%s-%s" (trunc 43 $full | trimSuffix "-") (sha256sum $full | trunc 8) -}}
{{- else -}}{{ $full }}{{- end -}}
{{- end }}

{{/* The value of app.kubernetes.io/name. */}}
{{- define "yardmaster.app" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{/* What selects the pods of a component; immutable, so there is nothing in it that an upgrade changes. */}}
{{- define "yardmaster.selector" -}}
app.kubernetes.io/name: {{ include "yardmaster.app" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component | quote }}
{{- end }}

{{/* The chart's own labels win over commonLabels: selectors and policies go by them. */}}
{{- define "yardmaster.labels" -}}
{{- $own := include "yardmaster.selector" . | fromYaml -}}
{{- $_ := set $own "app.kubernetes.io/part-of" "yardmaster" -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- $_ := set $own "app.kubernetes.io/version" .root.Chart.AppVersion -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") -}}
{{- toYaml (mergeOverwrite (deepCopy (default dict .root.Values.commonLabels)) $own) -}}
{{- end }}

{{/* metadata of an object: (dict "root" $ "component" "api" ["name" "…"] ["namespace" "…"] ["annotations" dict]) */}}
{{- define "yardmaster.metadata" -}}
metadata:
  name: {{ default (include "yardmaster.name" .) .name }}
  namespace: {{ default .root.Release.Namespace .namespace }}
  labels:
    {{- include "yardmaster.labels" . | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* An image of our own: (dict "root" $ "image" .Values.api.image "service" "api") */}}
{{- define "yardmaster.image" -}}
{{- $own := .root.Values.image -}}
{{- $repository := default (printf "%s%s" $own.repositoryPrefix .service) .image.repository -}}
{{- include "yardmaster.imageOf" (dict "root" .root "registry" $own.registry "repository" $repository "tag" (default (default .root.Chart.AppVersion $own.tag) .image.tag) "digest" .image.digest) -}}
{{- end }}

{{/* Any image: (dict "root" $ "registry" "" "repository" "nats" "tag" "…" "digest" "") */}}
{{- define "yardmaster.imageOf" -}}
{{- $registry := default (default "" .registry) .root.Values.global.imageRegistry | trimSuffix "/" -}}
{{- $path := ternary .repository (printf "%s/%s" $registry .repository) (empty $registry) -}}
{{- if .digest }}{{ $path }}@{{ .digest }}{{ else }}{{ $path }}:{{ .tag }}{{ end -}}
{{- end }}

{{/* Mebibytes of a quantity such as 384Mi, 1.5G or 1073741824; 0 for what it cannot read. */}}
{{- define "yardmaster.mebibytes" -}}
{{- $text := include "yardmaster.text" . -}}
{{- $units := dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- $unit := regexFind "[A-Za-z]*$" $text -}}
{{- $number := trimSuffix $unit $text -}}
{{- if and (hasKey $units $unit) (regexMatch "^[0-9]+([.][0-9]+)?$" $number) -}}
{{- divf (mulf (float64 $number) (get $units $unit)) 1048576 | int -}}
{{- else -}}0{{- end -}}
{{- end }}

{{/* A value as text. Helm reads every number of a file as a float, and would print a large one as 1e+07. */}}
{{- define "yardmaster.text" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) -}}{{ printf "%.0f" . }}
{{- else -}}{{ toString . }}{{- end -}}
{{- end }}

{{/* The executors that are on, each with the defaults filled in: JSON of a map. */}}
{{- define "yardmaster.executors" -}}
{{- $all := dict -}}
{{- $volumes := include "yardmaster.workspaces" . | fromJson -}}
{{- range $name, $entry := omit (default dict .Values.executors) "colocate" -}}
{{- $full := mergeOverwrite (deepCopy $.Values.executorDefaults) (deepCopy (default dict $entry)) -}}
{{- if $full.enabled -}}
{{- if not $full.kind }}{{ $_ := set $full "kind" $name }}{{ end -}}
{{- /* What is in no pod of its own has a fixed number. */ -}}
{{- if eq $full.scaler.mode "auto" -}}
{{- $volume := get $volumes (default "" $full.workspace) -}}
{{- $_ := set $full.scaler "mode" (ternary "fleet" "none" (and $.Values.fleet.enabled (not (and $volume $volume.colocate)))) -}}
{{- end -}}
{{- if not $full.runtimeClassName }}{{ $_ := set $full "runtimeClassName" (get (dict "gvisor" "gvisor" "kata" "kata") $full.isolation) }}{{ end -}}
{{- $_ := set $all $name $full -}}
{{- end -}}
{{- end -}}
{{- toJson $all -}}
{{- end }}

{{/* Waiting and running calls that one pod should have: one number for KEDA and the fleet. */}}
{{- define "yardmaster.callsPerPod" -}}
{{- max 1 (mulf (int .slots) .scaler.targetUtilization | floor | int) -}}
{{- end }}

{{/* The kinds of all executors, sorted, with commas. */}}
{{- define "yardmaster.kinds" -}}
{{- $kinds := list -}}
{{- range include "yardmaster.executors" . | fromJson -}}{{- $kinds = append $kinds .kind -}}{{- end -}}
{{- join "," (sortAlpha $kinds) -}}
{{- end }}

{{- define "yardmaster.natsUrl" -}}
{{- if eq .Values.nats.mode "external" }}{{ .Values.nats.external.url }}
{{- else }}nats://{{ include "yardmaster.name" (dict "root" . "component" "nats") }}:4222{{ end -}}
{{- end }}

{{- define "yardmaster.redisUrl" -}}
{{- if eq .Values.redis.mode "external" }}{{ .Values.redis.external.url }}
{{- else }}redis://{{ include "yardmaster.name" (dict "root" . "component" "redis") }}:6379{{ end -}}
{{- end }}

{{- define "yardmaster.natsSecret" -}}
{{ default (include "yardmaster.name" (dict "root" . "component" "nats-auth")) .Values.nats.auth.existingSecret }}
{{- end }}
{{- define "yardmaster.redisSecret" -}}
{{ default (include "yardmaster.name" (dict "root" . "component" "redis-auth")) .Values.redis.auth.existingSecret }}
{{- end }}
{{- define "yardmaster.apiKeySecret" -}}
{{ default (include "yardmaster.name" (dict "root" . "component" "api-key")) .Values.api.auth.existingSecret }}
{{- end }}
{{/* Empty when there are no provider keys at all. */}}
{{- define "yardmaster.providerSecret" -}}
{{- if .Values.providerKeys.existingSecret }}{{ .Values.providerKeys.existingSecret }}
{{- else if .Values.providerKeys.values }}{{ include "yardmaster.name" (dict "root" . "component" "provider-keys") }}{{ end -}}
{{- end }}

{{/* The volumes of workspaces, each with the defaults filled in: JSON of a map. */}}
{{- define "yardmaster.workspaces" -}}
{{- $all := dict -}}
{{- range $name, $entry := .Values.workspaces -}}
{{- if not (kindIs "invalid" $entry) -}}
{{- $full := mergeOverwrite (deepCopy $.Values.workspaceDefaults) (deepCopy $entry) -}}
{{- if get (default dict $.Values.executors) "colocate" }}{{ $_ := set $full "colocate" true }}{{ end -}}
{{- /* One pod needs no volume that many nodes can mount, and where it is asked for it there is none. */ -}}
{{- if not $full.accessMode }}{{ $_ := set $full "accessMode" (ternary "ReadWriteOnce" "ReadWriteMany" $full.colocate) }}{{ end -}}
{{- $_ := set $all $name $full -}}
{{- end -}}
{{- end -}}
{{- toJson $all -}}
{{- end }}
