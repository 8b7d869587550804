{{/* Egress rules, one item of a list each. */}}
{{- define "yardmaster.toDns" -}}
- to:
    {{- toYaml .Values.networkPolicy.dnsTo | nindent 4 }}
  ports:
    {{- range .Values.networkPolicy.dnsPorts }}
    - { protocol: UDP, port: {{ int . }} }
    - { protocol: TCP, port: {{ int . }} }
    {{- end }}
{{- end }}

{{- define "yardmaster.toNats" -}}
{{- if eq .Values.nats.mode "external" }}
- to:
    {{- toYaml .Values.nats.external.egressTo | nindent 4 }}
  ports:
    - { protocol: TCP, port: {{ .Values.nats.external.port }} }
{{- else }}
- to:
    - podSelector:
        matchLabels:
          {{- include "yardmaster.selector" (dict "root" . "component" "nats") | nindent 10 }}
  ports:
    - { protocol: TCP, port: 4222 }
{{- end }}
{{- end }}

{{- define "yardmaster.toRedis" -}}
{{- if eq .Values.redis.mode "external" }}
- to:
    {{- toYaml .Values.redis.external.egressTo | nindent 4 }}
  ports:
    - { protocol: TCP, port: {{ .Values.redis.external.port }} }
{{- else }}
- to:
    - podSelector:
        matchLabels:
          {{- include "yardmaster.selector" (dict "root" . "component" "redis") | nindent 10 }}
  ports:
    - { protocol: TCP, port: 6379 }
{{- end }}
{{- end }}

{{/* llama.cpp pods, of this release and of others; empty where there are none. */}}
{{- define "yardmaster.toLlama" -}}
{{- if .Values.llama.enabled }}
- to:
    - podSelector:
        matchLabels:
          app.kubernetes.io/name: llama
          app.kubernetes.io/instance: {{ .Release.Name | quote }}
  ports:
    - { protocol: TCP, port: 8080 }
{{- end }}
{{- if .Values.llamaReleases.enabled }}
- to:
    - podSelector:
        matchLabels:
          app.kubernetes.io/name: llama
      namespaceSelector:
        {{- toYaml .Values.llamaReleases.namespaceSelector | nindent 8 }}
  ports:
    - { protocol: TCP, port: 8080 }
{{- end }}
{{- end }}

{{/* HTTPS on the internet: not the cluster, not the node's neighbours, not the metadata address. */}}
{{- define "yardmaster.toInternet" -}}
- to:
    - ipBlock:
        cidr: 0.0.0.0/0
        except: [10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 169.254.0.0/16, 100.64.0.0/10, 127.0.0.0/8, 0.0.0.0/8, 192.0.0.0/24, 198.18.0.0/15, 240.0.0.0/4]
    - ipBlock:
        cidr: "::/0"
        except: ["fc00::/7", "fe80::/10", "::1/128"]
  ports:
    - { protocol: TCP, port: 443 }
{{- end }}

{{- define "yardmaster.fromMetrics" -}}
{{- with .root.Values.networkPolicy.metricsFrom }}
- from:
    {{- toYaml . | nindent 4 }}
  ports:
    {{- range $.ports }}
    - { protocol: TCP, port: {{ . }} }
    {{- end }}
{{- end }}
{{- end }}

{{/* A policy for one component: (dict "root" $ "component" "api" "ingress" "<yaml list>" "egress" "<yaml list>") */}}
{{- define "yardmaster.policy" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
{{ include "yardmaster.metadata" . }}
spec:
  podSelector:
    matchLabels:
      {{- include "yardmaster.selector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  {{- with (trim (default "" .ingress)) }}
  ingress:
    {{- . | nindent 4 }}
  {{- end }}
  {{- with (trim (default "" .egress)) }}
  egress:
    {{- . | nindent 4 }}
  {{- end }}
{{- end }}
