{{- /* Labels of a part: of its objects, its pods and its selector. Called with the part's name. */ -}}
{{- define "fleetpulse.labels" -}}
{ app.kubernetes.io/name: fleetpulse, app.kubernetes.io/component: {{ . }} }
{{- end }}

{{- /* Image of a part: its own tag, the chart's, or the version of the application. Called with (root, part). */ -}}
{{- define "fleetpulse.image" -}}
{{- $root := index . 0 }}{{- $part := index . 1 -}}
{{ $root.Values.image.repository }}:{{ $part.imageTag | default $root.Values.image.tag | default $root.Chart.AppVersion }}
{{- end }}

{{- /* Settings of every pod: where it runs and how it is spread. Called with (root, name, part). */ -}}
{{- define "fleetpulse.placement" -}}
{{- $root := index . 0 }}{{- $name := index . 1 }}{{- $part := index . 2 -}}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $part.nodeSelector | default $root.Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $part.tolerations | default $root.Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $part.affinity | default $root.Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $part.priorityClassName | default $root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- if and $root.Values.topologySpread (ne $name "migrate") }}
topologySpreadConstraints:
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{ include "fleetpulse.labels" $name }}
{{- end }}
{{- end }}
{{- end }}

{{- define "fleetpulse.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: { type: RuntimeDefault }
automountServiceAccountToken: false
{{- end }}

{{- define "fleetpulse.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end }}

{{- /* Alive while its event loop turns, whether Kafka is there or not; not ready while it cannot do its work. */ -}}
{{- define "fleetpulse.probes" -}}
startupProbe: { httpGet: { path: /healthz, port: health }, periodSeconds: 5, failureThreshold: 24 }
livenessProbe: { httpGet: { path: /healthz, port: health }, periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 6 }
readinessProbe: { httpGet: { path: /readyz, port: health }, periodSeconds: 5, timeoutSeconds: 5 }
{{- end }}

{{- /* Of a job, which run-job.sh starts again after a fatal error: nobody listens in between, and that is no reason to end the
container, whose own restarts come later every time. */ -}}
{{- define "fleetpulse.jobProbes" -}}
livenessProbe: { exec: { command: [bash, -c, "exec 3<>/dev/tcp/127.0.0.1/8080 || exit 0; printf 'GET /healthz HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n' >&3; read -r -t 4 _ code _ <&3; [ \"$code\" = 200 ]"] }, periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 6 }
readinessProbe: { httpGet: { path: /readyz, port: health }, periodSeconds: 5, timeoutSeconds: 5 }
{{- end }}

{{- /* Variables of a container, each name once: an apply by the server refuses a second. Those of its logins in Kafka and
ClickHouse, then `env` of the values, then what the part itself needs, then the part's own `env`; a later one replaces an
earlier. Called with (root, role, "writer" | "reader" | "", {NAME: value or source} of the part, {NAME: value} of its env). */ -}}
{{- define "fleetpulse.env" -}}
{{- $root := index . 0 }}{{- $database := index . 2 -}}
{{- $all := dict "FLEETPULSE_CONFIG_FILE" "/etc/fleetpulse/fleetpulse.toml" }}
{{- $_ := set $all "FLEETPULSE_KAFKA__SASL_USERNAME" (index $root.Values.logins (index . 1)).username }}
{{- if $database }}
{{- $section := eq $database "writer" | ternary "FLEETPULSE_CLICKHOUSE" "FLEETPULSE_CLICKHOUSE_READER" }}
{{- $_ := set $all (print $section "__URL") $root.Values.clickhouse.url }}
{{- $_ := set $all (print $section "__USER") (index $root.Values.clickhouse $database).user }}
{{- $_ := set $all (print $section "__PASSWORD_FILE") (print "/run/secrets/fleetpulse/clickhouse-" $database) }}
{{- if $root.Values.clickhouse.caInSecrets }}
{{- $_ := set $all (print $section "__CA_FILE") "/run/secrets/fleetpulse/clickhouse-ca.crt" }}
{{- end }}
{{- end }}
{{- range list $root.Values.env (index . 3) (index . 4) }}
{{- range $name, $value := . }}{{- $_ := set $all $name $value }}{{- end }}
{{- end }}
{{- /* First, since the value of another may name it. */ -}}
{{- if kindIs "map" $all.POD_NAME }}
- { name: POD_NAME, valueFrom: {{ toJson $all.POD_NAME }} }
{{- $_ := unset $all "POD_NAME" }}
{{- end }}
{{- range $name, $value := $all }}
{{- if kindIs "map" $value }}
- { name: {{ $name }}, valueFrom: {{ toJson $value }} }
{{- else }}
{{- /* Numbers of values are floats to Helm, which writes large ones with an exponent. */}}
{{- $text := kindIs "float64" $value | ternary (include "fleetpulse.toml.value" $value) (toString $value) }}
- { name: {{ $name }}, value: {{ regexMatch "^/[A-Za-z0-9/._-]+$" $text | ternary $text (quote $text) }} }
{{- end }}
{{- end }}
{{- end }}

{{- define "fleetpulse.mounts" -}}
- { name: config, mountPath: /etc/fleetpulse, readOnly: true }
- { name: secrets, mountPath: /run/secrets/fleetpulse, readOnly: true }
- { name: tmp, mountPath: /tmp }
{{- end }}

{{- /* Settings and secrets, each of them mounted as files. Called with (root, name of the config map, names of secrets). */ -}}
{{- define "fleetpulse.volumes" -}}
{{- $root := index . 0 }}{{- $config := index . 1 -}}
- { name: config, configMap: { name: {{ $root.Values.existingConfigMap | default $config }}, defaultMode: 0555 } }
- name: secrets
  projected:
    defaultMode: 0440
    sources:
{{- range index . 2 }}
      - { secret: { name: {{ . }} } }
{{- end }}
- { name: tmp, emptyDir: { sizeLimit: 256Mi } }
{{- end }}

{{- /* What pods are annotated with: who scrapes them, and what replaces them when what they read changes. Called with
(root, port, "fleetpulse.settings" | "fleetpulse.files"). */ -}}
{{- define "fleetpulse.annotations" -}}
{{- $root := index . 0 -}}
prometheus.io/scrape: "true"
prometheus.io/port: {{ index . 1 | quote }}
{{- if not $root.Values.existingConfigMap }}
checksum/config: {{ include (index . 2) $root | sha256sum }}
{{- end }}
{{- with $root.Values.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* A quantity of Kubernetes, such as 2Gi, as a number of bytes. */ -}}
{{- define "fleetpulse.bytes" -}}
{{- $unit := regexFind "[A-Za-z]+$" . }}
{{- $decimal := dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 }}
{{- $units := merge $decimal (dict "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624) }}
{{- mulf (float64 (trimSuffix $unit .)) (index $units $unit | required (printf "%s must be a quantity such as 2Gi" .)) }}
{{- end }}

{{- /* A value of TOML. Numbers of values files are floats to Helm: whole ones are written without a point. */ -}}
{{- define "fleetpulse.toml.value" -}}
{{- if kindIs "float64" . -}}
{{- if eq (floor .) . }}{{ int64 . }}{{ else }}{{ . }}{{ end -}}
{{- else if kindIs "slice" . -}}
[{{ range $place, $each := . }}{{ if $place }}, {{ end }}{{ include "fleetpulse.toml.value" $each }}{{ end }}]
{{- else -}}
{{ toJson . }}
{{- end -}}
{{- end }}

{{- define "fleetpulse.toml.key" -}}
{{- regexMatch "^[A-Za-z0-9_-]+$" . | ternary . (quote .) -}}
{{- end }}

{{- /* A table of TOML and those below it. Called with (table, its quoted name with dots, or ""). */ -}}
{{- define "fleetpulse.toml" -}}
{{- $path := index . 1 }}{{- $table := index . 0 }}
{{- range $key, $value := $table }}
{{- if not (or (kindIs "map" $value) (kindIs "invalid" $value) (and (kindIs "slice" $value) (kindIs "map" (first $value)))) }}
{{ include "fleetpulse.toml.key" $key }} = {{ include "fleetpulse.toml.value" $value }}
{{- end }}
{{- end }}
{{- range $key, $value := $table }}
{{- $name := include "fleetpulse.toml.key" $key }}
{{- $below := empty $path | ternary $name (printf "%s.%s" $path $name) }}
{{- if kindIs "map" $value }}

[{{ $below }}]
{{- include "fleetpulse.toml" (list $value $below) }}
{{- else if and (kindIs "slice" $value) (kindIs "map" (first $value)) }}
{{- range $value }}

[[{{ $below }}]]
{{- include "fleetpulse.toml" (list . $below) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* fleetpulse.toml, which is all that agents and proxies read. */ -}}
{{- define "fleetpulse.settings" -}}
{{- $named := dict }}
{{- range list "prices" "rules" "budgets" }}
{{- if index $.Values . }}{{- $_ := set $named . (printf "/etc/fleetpulse/%s.yaml" .) }}{{- end }}
{{- end }}
{{- $settings := merge (deepCopy .Values.settings) (dict "prices" "/etc/fleetpulse/prices.yaml") }}
{{- include "fleetpulse.toml" (list (mergeOverwrite $settings $named) "") }}
{{- end }}

{{- /* The files of the config map. */ -}}
{{- define "fleetpulse.files" -}}
fleetpulse.toml: |
{{- include "fleetpulse.settings" . | nindent 2 }}
run-job.sh: |
{{- .Files.Get "files/run-job.sh" | nindent 2 }}
prices.yaml: |
{{- include "fleetpulse.file" (.Values.prices | default (.Files.Get "files/prices.yaml")) | nindent 2 }}
{{- with .Values.listPrices }}
list_prices.json: |
{{- . | nindent 2 }}
{{- end }}
{{- range list "rules" "budgets" }}
{{- if index $.Values . }}
{{ . }}.yaml: |
{{- include "fleetpulse.file" (index $.Values .) | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- /* A file given as text or as YAML. */ -}}
{{- define "fleetpulse.file" -}}
{{- if kindIs "string" . }}{{ . }}{{ else }}{{ toYaml . }}{{ end -}}
{{- end }}

{{- /* A node is drained one pod of a part at a time; pods that are not ready hold up no drain. Called with (root, name). */ -}}
{{- define "fleetpulse.disruption" -}}
{{- $root := index . 0 }}{{- $name := index . 1 }}
{{- if $root.Values.podDisruptionBudgets }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  labels: {{ include "fleetpulse.labels" $name }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{ include "fleetpulse.labels" $name }}
{{- end }}
{{- end }}

{{- /* A deployment of one container. Called with a map: root, name, args, role, database, secrets, env, ports, claim
(of a volume for its data directory), alone (one pod, whatever happens), graceSeconds. */ -}}
{{- define "fleetpulse.deployment" -}}
{{- $root := .root }}{{- $part := index .root.Values .name -}}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  labels: {{ include "fleetpulse.labels" .name }}
spec:
  {{- if .alone }}
  replicas: 1
  {{- else if not (kindIs "invalid" $part.replicas) }}
  replicas: {{ $part.replicas }}
  {{- end }}
  {{- if .alone }}
  # Never two under one name.
  strategy: { type: Recreate }
  {{- end }}
  selector:
    matchLabels: {{ include "fleetpulse.labels" .name }}
  template:
    metadata:
      labels: {{ include "fleetpulse.labels" .name }}
      annotations:
        {{- include "fleetpulse.annotations" (list $root 8080 "fleetpulse.files") | nindent 8 }}
    spec:
      terminationGracePeriodSeconds: {{ .graceSeconds | default 40 }}
      {{- include "fleetpulse.podSecurity" $root | nindent 6 }}
      {{- include "fleetpulse.placement" (list $root .name $part) | indent 6 }}
      containers:
        - name: {{ .name }}
          image: {{ include "fleetpulse.image" (list $root $part) }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args: {{ toJson .args }}
          env:
            {{- include "fleetpulse.env" (list $root .role .database .env dict) | trim | nindent 12 }}
          ports:
            - { name: health, containerPort: 8080 }
            {{- range $key, $port := .ports }}
            - { name: {{ $key }}, containerPort: {{ $port }} }
            {{- end }}
          {{- include "fleetpulse.probes" $root | nindent 10 }}
          resources: {{- toYaml $part.resources | nindent 12 }}
          {{- include "fleetpulse.containerSecurity" $root | nindent 10 }}
          volumeMounts:
            {{- include "fleetpulse.mounts" $root | nindent 12 }}
            {{- if .claim }}
            - { name: data, mountPath: /var/lib/fleetpulse }
            {{- end }}
      volumes:
        {{- include "fleetpulse.volumes" (list $root "fleetpulse" .secrets) | nindent 8 }}
        {{- if .claim }}
        - { name: data, persistentVolumeClaim: { claimName: {{ .claim }} } }
        {{- end }}
{{- include "fleetpulse.disruption" (list $root .name) }}
{{- end }}
