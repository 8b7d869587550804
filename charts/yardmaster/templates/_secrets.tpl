{{/*
Passwords that the chart makes: once, kept by looking at what the cluster has. Where there is no cluster to look at
(`helm template`), the Secrets stay empty: a rendering is the same twice, and pods wait for their password instead of
running with one that stands in a repository.
*/}}

{{/* "true" when the cluster can be asked. A namespace that is still to be made is not there; kube-system always is. */}}
{{- define "yardmaster.hasCluster" -}}
{{- if lookup "v1" "Namespace" "" .Release.Namespace }}true
{{- else if lookup "v1" "Namespace" "" "kube-system" }}true{{ end -}}
{{- end }}

{{/* JSON {nats: {key: base64}, redis: …, apiKey: …}; made once in a rendering, because random twice is not the same. */}}
{{- define "yardmaster.generated" -}}
{{- if not (hasKey .Values "generated__") -}}
{{- $logins := .Files.Get "files/logins.json" | fromJson -}}
{{- $nats := list "nats-routes" -}}
{{- range $logins.nats }}{{ $nats = append $nats (printf "nats-%s" .) }}{{ end -}}
{{- range include "yardmaster.executors" . | fromJson }}{{ $nats = append $nats (printf "nats-executor-%s" .kind) }}{{ end -}}
{{- $redis := list -}}
{{- range $logins.redis }}{{ $redis = append $redis (printf "redis-%s" .) }}{{ end -}}
{{- $all := dict -}}
{{- $wanted := dict "nats" $nats "redis" $redis "apiKey" (list "api-key") -}}
{{- $taken := dict "nats" .Values.nats.auth.existingSecret "redis" .Values.redis.auth.existingSecret "apiKey" .Values.api.auth.existingSecret -}}
{{- $components := dict "nats" "nats-auth" "redis" "redis-auth" "apiKey" "api-key" -}}
{{- range $what, $keys := $wanted -}}
{{- $data := dict -}}
{{- if not (get $taken $what) -}}
{{- if include "yardmaster.hasCluster" $ -}}
{{- $name := include "yardmaster.name" (dict "root" $ "component" (get $components $what)) -}}
{{- $had := default dict (lookup "v1" "Secret" $.Release.Namespace $name).data -}}
{{- range $key := $keys -}}
{{- $new := randAlphaNum 40 -}}
{{- if eq $key "api-key" -}}
{{- $new = printf "ym_%s_%s_%s" $.Values.api.firstTenant (randAlphaNum 40 | sha256sum | trunc 12) (randAlphaNum 64 | sha256sum) -}}
{{- end -}}
{{- $_ := set $data $key (default (b64enc $new) (get $had $key)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $_ := set $all $what $data -}}
{{- end -}}
{{- $_ := set .Values "generated__" $all -}}
{{- end -}}
{{- toJson (get .Values "generated__") -}}
{{- end }}

{{/* One Secret of the chart: (dict "root" $ "what" "nats" "component" "nats-auth") */}}
{{- define "yardmaster.secret" -}}
{{- $data := get (include "yardmaster.generated" .root | fromJson) .what -}}
apiVersion: v1
kind: Secret
{{ include "yardmaster.metadata" (dict "root" .root "component" .component "annotations" (dict "helm.sh/resource-policy" "keep" "yardmaster.dev/note" "Kept over upgrades and deletion. Empty in a rendering without a cluster: then bring your own (existingSecret).")) }}
type: Opaque
{{- with $data }}
data:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Checksum of the keys that a pod reads from a Secret of the chart; empty for somebody else's Secret. */}}
{{- define "yardmaster.secretChecksum" -}}
{{- $data := get (include "yardmaster.generated" .root | fromJson) .what -}}
{{- $read := dict -}}
{{- range .keys }}{{ $_ := set $read . (get $data .) }}{{ end -}}
{{- toJson $read | sha256sum -}}
{{- end }}
