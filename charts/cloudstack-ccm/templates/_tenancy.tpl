{{/*
Parts of the policy that enforces .Values.tenancy: CEL expressions. pkg/tenancy decides the same in the controller.
Strings are written by toJson, which CEL reads as string literals.
*/}}

{{/* Whether the namespace of the request is one of a list: names, "*" or label selectors. */}}
{{- define "cloudstack-ccm.tenancy.namespaces" -}}
{{- $any := list -}}
{{- range . -}}
{{- if not (kindIs "map" .) -}}
{{- $any = append $any (eq . "*" | ternary "true" (printf "request.namespace == %s" (toJson .))) -}}
{{- else -}}
{{- $all := list -}}
{{- range $key, $value := .matchLabels -}}
{{- $all = append $all (printf "%s in variables.labels && variables.labels[%s] == %s" (toJson $key) (toJson $key) (toJson $value)) -}}
{{- end -}}
{{- range .matchExpressions -}}
{{- $key := toJson .key -}}
{{- $in := printf "variables.labels[%s] in %s" $key (toJson (default list .values)) -}}
{{- if eq .operator "In" -}}
{{- $all = append $all (printf "%s in variables.labels && %s" $key $in) -}}
{{- else if eq .operator "NotIn" -}}
{{- $all = append $all (printf "!(%s in variables.labels && %s)" $key $in) -}}
{{- else if eq .operator "Exists" -}}
{{- $all = append $all (printf "%s in variables.labels" $key) -}}
{{- else -}}
{{- $all = append $all (printf "!(%s in variables.labels)" $key) -}}
{{- end -}}
{{- end -}}
{{- $any = append $any (printf "(%s)" (join " && " $all)) -}}
{{- end -}}
{{- end -}}
{{- if $any -}}{{- join " || " $any -}}{{- else -}}false{{- end -}}
{{- end -}}

{{/* Not empty if a rule has a label selector: then the controller must read namespaces. */}}
{{- define "cloudstack-ccm.tenancy.selects" -}}
{{- $lists := list .Values.tenancy.trustedNamespaces -}}
{{- range append (append (values (default dict .Values.tenancy.annotations)) .Values.tenancy.sourceNATAddress) .Values.tenancy.foreignAddress -}}
{{- $lists = append $lists (default dict .).allow -}}
{{- end -}}
{{- range $lists -}}{{- range . -}}{{- if kindIs "map" . -}}true{{- end -}}{{- end -}}{{- end -}}
{{- end -}}

{{/* One validation: dict with expression, which is true if the Service is fine, and message. */}}
{{- define "cloudstack-ccm.tenancy.validation" -}}
- expression: {{ printf "variables.trusted || %s" .expression | quote }}
  message: {{ .message | quote }}
  reason: Forbidden
{{ end -}}

{{/* The validations of .Values.tenancy; empty if nothing is restricted. */}}
{{- define "cloudstack-ccm.tenancy.validations" -}}
{{- $tenancy := .Values.tenancy -}}
{{- $prefix := "service.beta.kubernetes.io/cloudstack-load-balancer-" -}}
{{- range $rule, $is := $tenancy.annotations -}}
{{- $is = default dict $is -}}
{{- $name := printf "%s%s" $prefix $rule -}}
{{- $path := printf "tenancy.annotations.%s" $rule -}}
{{- $uses := list (list (printf "annotation %s" $name) (printf "%s in variables.changed" (toJson $name)) (printf "variables.now[%s].trim()" (toJson $name))) -}}
{{- if eq $rule "address" -}}
{{- /* An empty address asks for any. */ -}}
{{- $uses = list
  (list (printf "annotation %s" $name) (printf "%s in variables.changed && variables.now[%s].trim() != ''" (toJson $name) (toJson $name)) (printf "variables.now[%s].trim()" (toJson $name)))
  (list "spec.loadBalancerIP" "variables.ipChanged" "variables.ip") -}}
{{- end -}}
{{- range $uses -}}
{{- $what := index . 0 -}}{{- $used := index . 1 -}}{{- $value := index . 2 -}}
{{- if or $is.deny $is.allow }}
{{ include "cloudstack-ccm.tenancy.validation" (dict
  "expression" (printf "!(%s) || %s" $used (include "cloudstack-ccm.tenancy.namespaces" $is.allow))
  "message" (printf "%s is not allowed in this namespace (chart value %s); do without it, or ask your cluster's operator, who can add the namespace to %s.allow" $what $path $path)) }}
{{- end -}}
{{- if $is.values }}
{{ include "cloudstack-ccm.tenancy.validation" (dict
  "expression" (printf "!(%s) || %s in %s" $used $value (toJson $is.values))
  "message" (printf "%s: allowed: %s (chart value %s); use one of them, or ask your cluster's operator, who can add the value to %s.values" $what (join ", " $is.values) $path $path)) }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $kept := default dict $tenancy.limits.keepIP -}}
{{- if and (hasKey $kept "maxPerNamespace") (not (kindIs "invalid" $kept.maxPerNamespace)) (eq (int $kept.maxPerNamespace) 0) }}
{{- $name := toJson (printf "%skeep-ip" $prefix) }}
{{ include "cloudstack-ccm.tenancy.validation" (dict
  "expression" (printf "!(%s in variables.changed) || !(variables.now[%s].trim().lowerAscii() in ['true', 'enabled', 'yes', 'on'])" $name $name)
  "message" (printf "annotation %skeep-ip is not allowed in this namespace (chart value tenancy.limits.keepIP.maxPerNamespace); remove it, or ask your cluster's operator, who can raise the limit" $prefix)) }}
{{- end -}}
{{- with int $tenancy.limits.maxPortsPerService }}
{{ include "cloudstack-ccm.tenancy.validation" (dict
  "expression" (printf "!has(object.spec.ports) || size(object.spec.ports) <= %d || !variables.becomes && has(oldObject.spec.ports) && size(object.spec.ports) <= size(oldObject.spec.ports)" .)
  "message" (printf "the Service has more than %d ports (chart value tenancy.limits.maxPortsPerService); use several Services, or ask your cluster's operator, who can raise the limit" .)) }}
{{- end -}}
{{- end -}}
