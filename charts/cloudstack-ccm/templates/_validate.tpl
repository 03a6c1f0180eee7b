{{/*
What a schema cannot say well: values of other charts for cloud controller managers, credentials, and
combinations. Each message names what to write instead.
*/}}
{{- define "cloudstack-ccm.validate" -}}
{{- $credentials := "credentials are no values of this chart, because Helm stores values in the cluster as they are; write the cloud-config into a Secret and name it in existingSecret.name and existingSecret.key (csccm install does both)" -}}
{{- range $name := list "apiKey" "apiUrl" "cloudConfig" "cloudstack" "credentials" "secret" "secretKey" "cloud-config" -}}
{{- if hasKey $.Values $name -}}
{{- fail (printf "value %s: %s" $name $credentials) -}}
{{- end -}}
{{- end -}}
{{- $renamed := dict
  "args" "extraArgs, as a list of --flag=value"
  "cluster" "clusterName"
  "controllerExtraArgs" "extraArgs, as a list of --flag=value"
  "enabledControllers" "controllers"
  "env" "extraEnv"
  "logLevel" "logVerbosity"
  "logVerbosityLevel" "logVerbosity"
  "nameOverride" "fullnameOverride"
  "replicas" "replicaCount"
  "secretName" "existingSecret.name"
  "volumeMounts" "extraVolumeMounts"
  "volumes" "extraVolumes"
-}}
{{- range $name := keys $renamed | sortAlpha -}}
{{- if hasKey $.Values $name -}}
{{- fail (printf "value %s is not known here; use %s" $name (get $renamed $name)) -}}
{{- end -}}
{{- end -}}
{{- if not (contains "cloud-controller-manager" (include "cloudstack-ccm.fullname" .)) -}}
{{- fail (printf "value fullnameOverride: %q must contain cloud-controller-manager; CloudStack's Kubernetes Service re-installs its own provider when no Pod of such a name exists" .Values.fullnameOverride) -}}
{{- end -}}
{{- range $flag := list "cloud-provider" "cloud-config" -}}
{{- range $arg := $.Values.extraArgs -}}
{{- if or (eq $arg (printf "--%s" $flag)) (hasPrefix (printf "--%s=" $flag) $arg) -}}
{{- fail (printf "value extraArgs: --%s is set by the chart; the cloud-config comes from existingSecret.name and existingSecret.key" $flag) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $env := .Values.extraEnv -}}
{{- if eq $env.name "POD_IP" -}}
{{- fail "value extraEnv: POD_IP is set by the chart" -}}
{{- end -}}
{{- end -}}
{{- range $value := list "podLabels" "commonLabels" -}}
{{- range $key := keys (get $.Values $value) -}}
{{- if or (eq $key "helm.sh/chart") (has $key (list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" "app.kubernetes.io/part-of" "app.kubernetes.io/version" "app.kubernetes.io/managed-by")) -}}
{{- fail (printf "value %s: the label %s is set by the chart" $value $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.podMonitor.enabled (not .Values.podMonitor.tokenSecret.name) -}}
{{- fail "value podMonitor.tokenSecret.name: the metrics are served to authorised accounts only, and a PodMonitor cannot use Prometheus' own token; name a Secret with a token, or use serviceMonitor" -}}
{{- end -}}
{{- end -}}
