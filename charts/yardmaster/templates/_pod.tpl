{{- define "yardmaster.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  {{- /* Without one the platform chooses it, as OpenShift does for each namespace. */}}
  {{- with .Values.podDefaults.runAsUser }}
  runAsUser: {{ int64 . }}
  runAsGroup: {{ int64 . }}
  fsGroup: {{ int64 . }}
  {{- end }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{- define "yardmaster.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  capabilities:
    drop: [ALL]
{{- end }}

{{/* Where a pod runs: (dict "root" $ "spec" .Values.api "component" "api" "spread" true ["token" true]) */}}
{{- define "yardmaster.placement" -}}
serviceAccountName: {{ include "yardmaster.name" . }}
automountServiceAccountToken: {{ default false .token }}
enableServiceLinks: false
{{- with .root.Values.global.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- with .root.Values.podDefaults.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with (default .root.Values.podDefaults.nodeSelector .spec.nodeSelector) }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with (default .root.Values.podDefaults.tolerations .spec.tolerations) }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .spec.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .spread }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "yardmaster.selector" . | nindent 8 }}
{{- end }}
{{- end }}

{{/* Annotations of a pod: podDefaults, its own, checksums (a dict); empty ones are left out. */}}
{{- define "yardmaster.podAnnotations" -}}
{{- $all := mergeOverwrite (deepCopy (default dict .root.Values.podDefaults.annotations)) (deepCopy (default dict .spec.podAnnotations)) (default dict .more) -}}
{{- with $all }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* A list of variables out of maps, the last one wins: (list dict dict …). A map as a value is a valueFrom. */}}
{{- define "yardmaster.env" -}}
{{- $all := dict -}}
{{- range . -}}{{- $all = mergeOverwrite $all (deepCopy (default dict .)) -}}{{- end -}}
{{- range $name, $value := $all }}
- name: {{ $name }}
  {{- if kindIs "map" $value }}
  valueFrom:
    {{- toYaml $value | nindent 4 }}
  {{- else }}
  value: {{ include "yardmaster.text" $value | quote }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Variables of every service: (dict "root" $ "login" "api" "redis" true "health" 8081 "metrics" 9090 "drain" 60 "memory" "384Mi"), JSON */}}
{{- define "yardmaster.serviceEnv" -}}
{{- $env := dict "YM_NATS_URL" (include "yardmaster.natsUrl" .root) "YM_NATS_USER" .login "YM_NATS_PASSWORD_FILE" "/run/yardmaster/nats/password" "YM_LOG_LEVEL" .root.Values.logLevel "YM_HOST" .root.Values.listenHost "YM_HEALTH_PORT" (toString .health) "YM_METRICS_PORT" (toString .metrics) "YM_DRAIN_MS" (printf "%d" (mul 1000 (int .drain))) -}}
{{- if .redis -}}
{{- $_ := set $env "YM_REDIS_URL" (include "yardmaster.redisUrl" .root) -}}
{{- $_ := set $env "YM_REDIS_USER" .login -}}
{{- $_ := set $env "YM_REDIS_PASSWORD_FILE" "/run/yardmaster/redis/password" -}}
{{- end -}}
{{- /* A heap that may grow to the container's limit is killed by the kernel instead of collected. */ -}}
{{- $limit := include "yardmaster.mebibytes" .memory | int -}}
{{- if gt $limit 0 }}{{ $_ := set $env "NODE_OPTIONS" (printf "--max-old-space-size=%d" (div (mul $limit 3) 4)) }}{{ end -}}
{{- if .root.Values.caBundleConfigMap }}{{ $_ := set $env "NODE_EXTRA_CA_CERTS" "/run/yardmaster/ca/ca.crt" }}{{ end -}}
{{- toJson $env -}}
{{- end }}

{{/* The password of one login, as the file /run/yardmaster/<server>/password: a volume. (dict "server" "nats" "secret" "…" "login" "api" ["volume" name]) */}}
{{- define "yardmaster.passwordVolume" -}}
- name: {{ default (printf "%s-password" .server) .volume }}
  secret:
    secretName: {{ .secret | quote }}
    items:
      - key: {{ .server }}-{{ .login }}
        path: password
{{- end }}

{{- define "yardmaster.caVolume" -}}
{{- with .Values.caBundleConfigMap }}
- name: ca
  configMap:
    name: {{ . | quote }}
{{- end }}
{{- end }}
{{- define "yardmaster.caMount" -}}
{{- if .Values.caBundleConfigMap }}
- name: ca
  mountPath: /run/yardmaster/ca
  readOnly: true
{{- end }}
{{- end }}

{{/* Probes of a service. The port opens when the service serves, hence the start probe; none of the three asks NATS whether to restart. */}}
{{- define "yardmaster.probes" -}}
startupProbe:
  httpGet: { path: /livez, port: {{ .port }} }
  periodSeconds: 2
  failureThreshold: 90
livenessProbe:
  httpGet: { path: /livez, port: {{ .port }} }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: { path: /readyz, port: {{ .port }} }
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: 2
{{- end }}

{{/* Grace period, checked: (dict "what" "api" "spec" .Values.api) */}}
{{- define "yardmaster.grace" -}}
{{- $least := add (int .spec.preStopSeconds) (int .spec.drainSeconds) 5 -}}
{{- if kindIs "invalid" .spec.terminationGracePeriodSeconds -}}
{{- add $least 5 -}}
{{- else if lt (int .spec.terminationGracePeriodSeconds) (int $least) -}}
{{- fail (printf "%s.terminationGracePeriodSeconds is %d; it must be at least preStopSeconds + drainSeconds + 5 = %d, or running work is cut off" .what (int .spec.terminationGracePeriodSeconds) (int $least)) -}}
{{- else -}}{{ int .spec.terminationGracePeriodSeconds }}{{- end -}}
{{- end }}

{{- define "yardmaster.preStop" -}}
{{- if gt (int .preStopSeconds) 0 }}
lifecycle:
  preStop:
    sleep:
      seconds: {{ int .preStopSeconds }}
{{- end }}
{{- end }}

{{- define "yardmaster.serviceAccount" -}}
apiVersion: v1
kind: ServiceAccount
{{ include "yardmaster.metadata" . }}
automountServiceAccountToken: false
{{- end }}

{{/* (dict "root" $ "component" "api" ["data" true]); data: its pods keep what others need, even while they are not ready. */}}
{{- define "yardmaster.pdb" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
{{ include "yardmaster.metadata" . }}
spec:
  maxUnavailable: 1
  {{- if not .data }}
  # Pods that are not ready serve nobody: a node with broken ones can be drained.
  unhealthyPodEvictionPolicy: AlwaysAllow
  {{- end }}
  selector:
    matchLabels:
      {{- include "yardmaster.selector" . | nindent 6 }}
{{- end }}

{{/* An init container that writes a server's configuration out of the Secret, with the code that knows all logins. */}}
{{- define "yardmaster.filesContainer" -}}
- name: files
  image: {{ include "yardmaster.image" (dict "root" .root "image" .root.Values.bootstrap.image "service" "yard") }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command: [node, services/yard/dist/main.js, setup, files, --readable-by-others, --only, {{ .only }}, --out, /generated, --secrets, /run/secrets/{{ .only }}]
  {{- with .args }}
  args:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- include "yardmaster.containerSecurity" . | nindent 2 }}
  resources:
    requests: { cpu: 50m, memory: 96Mi }
    limits: { memory: 256Mi }
  volumeMounts:
    - { name: generated, mountPath: /generated }
    - { name: auth, mountPath: /run/secrets/{{ .only }}, readOnly: true }
    - { name: tmp, mountPath: /tmp }
{{- end }}
