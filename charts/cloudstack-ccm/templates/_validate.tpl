{{/*
What a schema cannot say well: values of other charts for cloud controller managers, credentials, and
combinations. Each message names what to write instead.
*/}}
{{- define "cloudstack-ccm.validate" -}}
{{- include "cloudstack-ccm.required" . -}}
{{- $credentials := "credentials are no values of this chart, because Helm stores values in the cluster as they are; write the cloud-config into a Secret and name it in existingSecret.name and existingSecret.key (csccm install does both)" -}}
{{- range $name := list "apiKey" "apiUrl" "cloudConfig" "cloudstack" "credentials" "secret" "secretKey" "cloud-config" -}}
{{- if hasKey $.Values $name -}}
{{- fail (printf "value %s: %s" $name $credentials) -}}
{{- end -}}
{{- end -}}
{{- $renamed := dict
  "args" "use extraArgs, as a list of --flag=value"
  "cluster" "use clusterName"
  "clusterRoleName" "use fullnameOverride"
  "commonAnnotations" "use workloadAnnotations, podAnnotations or serviceAccount.annotations"
  "controllerExtraArgs" "use extraArgs, as a list of --flag=value"
  "enabledControllers" "use controllers: cloud-node-controller, cloud-node-lifecycle-controller, service-lb-controller"
  "env" "use extraEnv"
  "extraInitContainers" "use initContainers"
  "livenessProbe" "the probes are the chart's"
  "logLevel" "use logVerbosity"
  "logVerbosityLevel" "use logVerbosity"
  "metrics" "use serviceMonitor or podMonitor"
  "monitoring" "use serviceMonitor or podMonitor"
  "nameOverride" "use fullnameOverride"
  "networking" "use hostNetwork; the controller routes nothing"
  "readinessProbe" "the probes are the chart's"
  "replicas" "use replicaCount"
  "secretName" "use existingSecret.name"
  "serviceAccountName" "use serviceAccount.name"
  "strategy" "Pods are replaced one by one, because two cannot share the node's port"
  "volumeMounts" "use extraVolumeMounts"
  "volumes" "use extraVolumes"
-}}
{{- range $name := keys $renamed | sortAlpha -}}
{{- if hasKey $.Values $name -}}
{{- fail (printf "value %s is not known here; %s" $name (get $renamed $name)) -}}
{{- end -}}
{{- end -}}
{{- if not (contains "cloud-controller-manager" (include "cloudstack-ccm.fullname" .)) -}}
{{- fail (printf "value fullnameOverride: %q must contain cloud-controller-manager; CloudStack's Kubernetes Service re-installs its own provider when no Pod of such a name exists" .Values.fullnameOverride) -}}
{{- end -}}
{{- range $flag := list "cloud-provider" "cloud-config" -}}
{{- range $arg := $.Values.extraArgs -}}
{{- if eq $flag (include "cloudstack-ccm.flagName" $arg) -}}
{{- fail (printf "value extraArgs: --%s is set by the chart; the cloud-config comes from existingSecret.name and existingSecret.key" $flag) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- /* Roles, probes, ports and volumes follow these values, not the flags. */ -}}
{{- $flags := dict "ca-bundle" "caBundle.configMapName" "tls-cert-file" "servingCertificate.secretName" "tls-private-key-file" "servingCertificate.secretName" "controllers" "controllers" "secure-port" "securePort"
  "leader-elect-resource-name" "leaderElection.leaseName" "leader-elect-resource-namespace" "leaderElection.leaseNamespace" "tenancy" "tenancy" -}}
{{- range $flag := keys $flags | sortAlpha -}}
{{- range $arg := $.Values.extraArgs -}}
{{- if eq $flag (include "cloudstack-ccm.flagName" $arg) -}}
{{- fail (printf "value extraArgs: for --%s use %s, which other parts of the chart go by" $flag (get $flags $flag)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if or (eq .Values.kind "DaemonSet") (gt (int .Values.replicaCount) 1) -}}
{{- range $arg := .Values.extraArgs -}}
{{- if and (eq (include "cloudstack-ccm.flagName" $arg) "leader-elect") (contains "=" $arg) (not (regexMatch "=(1|t|T|true|True|TRUE)$" $arg)) -}}
{{- fail (printf "value extraArgs: %s needs a Deployment with replicaCount 1; without an election all Pods would work at once and undo each other's work" $arg) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (eq (default "" .Values.dnsPolicy) "None") (not (default dict .Values.dnsConfig).nameservers) -}}
{{- fail "value dnsPolicy: None leaves the Pods without a name server; name one in dnsConfig.nameservers" -}}
{{- end -}}
{{- range $name := list "serviceMonitor" "podMonitor" -}}
{{- $monitor := get $.Values $name -}}
{{- if and $monitor.enabled $.Values.servingCertificate.secretName (not $monitor.tlsConfig) (ne (default (include "cloudstack-ccm.namespace" $) $monitor.namespace) (include "cloudstack-ccm.namespace" $)) -}}
{{- fail (printf "value %s.namespace: a monitor reads Secrets of its own namespace alone, and servingCertificate.secretName is another's; say in %s.tlsConfig how to verify the certificate" $name $name) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.hostNetwork (lt (int .Values.securePort) 1024) -}}
{{- fail (printf "value securePort: %d is a privileged port of the node, which the Pods may not open; use 1024 or above" (int .Values.securePort)) -}}
{{- end -}}
{{- $variables := dict "POD_IP" "" -}}
{{- if .Values.apiServer.host -}}
{{- $variables = merge $variables (dict "KUBERNETES_SERVICE_HOST" "apiServer.host" "KUBERNETES_SERVICE_PORT" "apiServer.port") -}}
{{- end -}}
{{- if .Values.proxy.http -}}{{- $_ := set $variables "HTTP_PROXY" "proxy.http" -}}{{- end -}}
{{- if .Values.proxy.https -}}{{- $_ := set $variables "HTTPS_PROXY" "proxy.https" -}}{{- end -}}
{{- if or .Values.proxy.http .Values.proxy.https .Values.proxy.noProxy -}}{{- $_ := set $variables "NO_PROXY" "proxy.noProxy" -}}{{- end -}}
{{- range $name := keys $variables -}}{{- if hasSuffix "_PROXY" $name -}}{{- $_ := set $variables (lower $name) (get $variables $name) -}}{{- end -}}{{- end -}}
{{- $given := list -}}
{{- range $env := .Values.extraEnv -}}
{{- if has $env.name $given -}}
{{- fail (printf "value extraEnv: %s is there twice" $env.name) -}}
{{- end -}}
{{- $given = append $given $env.name -}}
{{- if hasKey $variables $env.name -}}
{{- fail (printf "value extraEnv: %s is set by the chart%s" $env.name (get $variables $env.name | printf ", by %s" | trimSuffix ", by ")) -}}
{{- end -}}
{{- end -}}
{{- range $volume := .Values.extraVolumes -}}
{{- if has $volume.name (list "cloud-config" "ca-bundle" "serving-certificate") -}}
{{- fail (printf "value extraVolumes: the name %s is the chart's own volume's; use another" $volume.name) -}}
{{- end -}}
{{- end -}}
{{- range $mount := .Values.extraVolumeMounts -}}
{{- if regexMatch "^/etc/cloudstack(-ca|-tls)?(/|$)" (toString $mount.mountPath) -}}
{{- fail (printf "value extraVolumeMounts: %s is where the chart mounts its own volumes; use another path" $mount.mountPath) -}}
{{- end -}}
{{- end -}}
{{- range $value := list "podLabels" "commonLabels" -}}
{{- range $key := keys (default dict (get $.Values $value)) -}}
{{- if or (eq $key "helm.sh/chart") (has $key (list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" "app.kubernetes.io/part-of" "app.kubernetes.io/version" "app.kubernetes.io/managed-by")) -}}
{{- fail (printf "value %s: the label %s is set by the chart" $value $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.podMonitor.enabled (not .Values.podMonitor.tokenSecret.name) -}}
{{- fail "value podMonitor.tokenSecret.name: the metrics are served to authorised accounts only, and a PodMonitor cannot use Prometheus' own token; name a Secret with a token, or use serviceMonitor" -}}
{{- end -}}
{{- if and .Values.networkPolicy.enabled .Values.hostNetwork -}}
{{- fail "value networkPolicy.enabled: a NetworkPolicy does not reach Pods on the host's network; set hostNetwork to false, or leave it out" -}}
{{- end -}}
{{- $alerts := list -}}
{{- range (.Files.Get "monitoring/alerts.yaml" | fromYaml).groups -}}
{{- range .rules -}}{{- $alerts = append $alerts .alert -}}{{- end -}}
{{- end -}}
{{- range $name := .Values.prometheusRule.disabled -}}
{{- if not (has $name $alerts) -}}
{{- fail (printf "value prometheusRule.disabled: there is no alert %s; there are %s" $name (join ", " $alerts)) -}}
{{- end -}}
{{- end -}}
{{- range $object := .Values.extraObjects -}}
{{- $text := kindIs "string" $object | ternary $object (toYaml $object) -}}
{{- range $document := regexSplit "(?m)^---" (tpl $text $) -1 -}}
{{- $parsed := fromYaml $document -}}
{{- $items := get $parsed "items" -}}
{{- range $one := append (ternary $items list (kindIs "slice" $items)) $parsed -}}
{{- if and (kindIs "map" $one) (eq (get $one "kind" | toString) "Secret") (or (hasKey $one "data") (hasKey $one "stringData")) -}}
{{- fail (printf "value extraObjects: a Secret: %s" $credentials) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Name of the flag that an argument sets. The controller takes underscores for dashes. */}}
{{- define "cloudstack-ccm.flagName" -}}
{{- index (splitList "=" .) 0 | trimPrefix "--" | replace "_" "-" -}}
{{- end -}}
