{{/*
A value that has a default and yet is missing: "helm upgrade --reuse-values" keeps the values of an older chart and leaves out
the defaults of this one. What then would be rendered nobody asked for, such as --node-deletion-limit=0.
*/}}
{{- define "cloudstack-ccm.required" -}}
{{- range $path := list
  "admissionPolicy.enabled" "adoptNodes" "apiServer.port" "caBundle.key" "concurrentNodeSyncs" "concurrentServiceSyncs" "controlPlaneOnly" "existingSecret.key"
  "existingSecret.name" "fullnameOverride" "grafanaDashboard.enabled" "hostNetwork" "image.pullPolicy" "image.repository"
  "kind" "kubeAPI.burst" "kubeAPI.qps" "leaderElection.leaseName" "leaderElection.leaseNamespace" "loadBalancers.cleanOrphans"
  "loadBalancers.manageNetworkACLs" "logFormat" "logVerbosity" "metricsReader.create" "networkPolicy.enabled" "nodes.deletionLimit"
  "nodes.deletionWindow" "nodes.outOfService" "podDisruptionBudget.enabled" "podDisruptionBudget.maxUnavailable" "podMonitor.enabled"
  "podMonitor.interval" "podMonitor.tokenSecret.key" "prometheusRule.enabled" "proxy" "rbac.create" "replicaCount" "securePort"
  "serviceAccount.create" "serviceMonitor.enabled" "serviceMonitor.interval" "servingCertificate.caKey" "tenancy.limits.keepIP"
  "tenancy.limits.maxAddressesPerNamespace" "tenancy.limits.maxPortsPerService" "terminationGracePeriodSeconds"
-}}
{{- $at := $.Values -}}
{{- range $key := splitList "." $path -}}
{{- if not (and (kindIs "map" $at) (hasKey $at $key)) -}}
{{- fail (printf "value %s is missing; after an older chart use helm upgrade --reset-then-reuse-values, not --reuse-values, and do not set it to null" $path) -}}
{{- end -}}
{{- $at = get $at $key -}}
{{- end -}}
{{- end -}}
{{- end -}}
