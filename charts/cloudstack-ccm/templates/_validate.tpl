{{/* Rules that the schema cannot express: values that contradict each other, and settings that the chart makes itself. */}}
{{- define "cloudstack-ccm.validate" -}}
{{- $values := .Values -}}
{{- $fullname := include "cloudstack-ccm.fullname" . -}}
{{- if not (contains "cloud-controller-manager" $fullname) -}}
{{- fail (printf "value fullnameOverride: %q must contain cloud-controller-manager; CloudStack Kubernetes Service installs its own provider again if no Pod has such a name" $fullname) -}}
{{- end -}}
{{- $flags := dict
  "ca-bundle" "use caBundle.configMapName"
  "cloud-config" "use existingSecret"
  "cloud-provider" "leave it out"
  "controllers" "use controllers"
  "load-balancer-class" "use loadBalancers.class"
  "load-balancer-classless" "use loadBalancers.classless"
  "leader-elect-resource-name" "use leaderElection.leaseName"
  "leader-elect-resource-namespace" "leave it out"
  "secure-port" "use securePort"
  "tenancy" "use tenancy"
  "tls-cert-file" "use servingCertificate.secretName"
  "tls-private-key-file" "use servingCertificate.secretName" -}}
{{- range $arg := $values.extraArgs -}}
{{- $flag := index (splitList "=" $arg) 0 | trimPrefix "--" | replace "_" "-" -}}
{{- if not (hasPrefix "-" $arg) -}}
{{- fail (printf "value extraArgs: %q is not a flag, written as --flag=value" $arg) -}}
{{- end -}}
{{- with get $flags $flag -}}
{{- fail (printf "value extraArgs: --%s is set by the chart; %s" $flag .) -}}
{{- end -}}
{{- if and (or (eq $values.kind "DaemonSet") (gt (int $values.replicaCount) 1)) (eq $flag "leader-elect") (contains "=" $arg) (not (regexMatch "=(1|t|T|true|True|TRUE)$" $arg)) -}}
{{- fail (printf "value extraArgs: %s needs a Deployment with replicaCount 1; without an election all Pods would work at the same time and undo each other's changes" $arg) -}}
{{- end -}}
{{- end -}}
{{- if and $values.hostNetwork (lt (int $values.securePort) 1024) -}}
{{- fail (printf "value securePort: %d is a privileged port of the node, which the Pods may not open; use 1024 or higher" (int $values.securePort)) -}}
{{- end -}}
{{- /* The schema would print the value. */ -}}
{{- if not (regexMatch "^(https?://[^\\s@/]+/?)?$" (default "" $values.proxy.https)) -}}
{{- fail "value proxy.https: want a URL such as http://proxy.example.org:3128, without user and password" -}}
{{- end -}}
{{- $names := list "POD_IP" -}}
{{- if $values.apiServer.host -}}{{- $names = concat $names (list "KUBERNETES_SERVICE_HOST" "KUBERNETES_SERVICE_PORT") -}}{{- end -}}
{{- if $values.proxy.https -}}{{- $names = concat $names (list "HTTPS_PROXY" "https_proxy") -}}{{- end -}}
{{- if or $values.proxy.https $values.proxy.noProxy -}}{{- $names = concat $names (list "NO_PROXY" "no_proxy") -}}{{- end -}}
{{- range $values.extraEnv -}}
{{- if has .name $names -}}
{{- fail (printf "value extraEnv: %s is set by the chart (apiServer, proxy) or occurs twice" .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- range $values.extraVolumes -}}
{{- if has .name (list "cloud-config" "ca-bundle" "serving-certificate") -}}
{{- fail (printf "value extraVolumes: the chart has a volume named %s; use another name" .name) -}}
{{- end -}}
{{- end -}}
{{- range $values.extraVolumeMounts -}}
{{- if regexMatch "^/etc/cloudstack(-ca|-tls)?(/|$)" (toString .mountPath) -}}
{{- fail (printf "value extraVolumeMounts: the chart mounts its own volumes at %s; use another path" .mountPath) -}}
{{- end -}}
{{- end -}}
{{- range $key, $_ := $values.commonLabels -}}
{{- if regexMatch "^(helm.sh/chart|app.kubernetes.io/(name|instance|component|part-of|version|managed-by))$" $key -}}
{{- fail (printf "value commonLabels: the label %s is set by the chart" $key) -}}
{{- end -}}
{{- end -}}
{{- $annotations := list "address" "algorithm" "direct-spread" "hostname" "internal" "keep-ip" "mode" "network" "node-selector" "project"
  "proxy-protocol" "share-with" "source-cidrs" "ssl-certificate" "ssl-ports" "stickiness" "stickiness-options" "zone" -}}
{{- range $name, $_ := $values.tenancy.annotations -}}
{{- if not (has $name $annotations) -}}
{{- fail (printf "value tenancy.annotations: %s is not known; use one of %s" $name (join ", " $annotations)) -}}
{{- end -}}
{{- end -}}
{{- with $values.serviceMonitor -}}
{{- if and .enabled $values.servingCertificate.secretName (not .endpoint.tlsConfig) .namespace (ne .namespace $.Release.Namespace) -}}
{{- fail "value serviceMonitor.namespace: a ServiceMonitor reads Secrets of its own namespace only, and servingCertificate.secretName is in the release's; set serviceMonitor.endpoint.tlsConfig" -}}
{{- end -}}
{{- end -}}
{{- $alerts := list -}}
{{- range (.Files.Get "monitoring/alerts.yaml" | fromYaml).groups -}}
{{- range .rules -}}{{- $alerts = append $alerts .alert -}}{{- end -}}
{{- end -}}
{{- range $values.prometheusRule.disabled -}}
{{- if not (has . $alerts) -}}
{{- fail (printf "value prometheusRule.disabled: %s is not known; use one of %s" . (join ", " $alerts)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
