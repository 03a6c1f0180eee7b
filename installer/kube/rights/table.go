// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"slices"
	"strings"
)

// Groups of commands.
const (
	diagnosing = "doctor status support-bundle ui"      // read only
	releasing  = "install upgrade rollback"             // write the Helm release
	rollingOut = "install upgrade rollback rotate-keys" // wait until the controller's Pods are ready
)

// need returns a row of the table. Resources of an API group are written as kubectl names them: leases.coordination.k8s.io.
func need(verbs, resources string, place Place, commands, why string) Right {
	return Right{Verbs: strings.Fields(verbs), Resource: resources, Place: place, Commands: strings.Fields(commands), Why: why}
}

func (r Right) without(consequence string) Right { r.Without = consequence; return r }

func (r Right) when(condition string) Right { r.When = condition; return r }

// Table returns all permissions that csccm needs, except those that every authenticated user has: versions, API
// discovery and self-subject access reviews.
func Table() []Right {
	var out []Right
	for _, row := range append(slices.Clone(rows), chartRights()...) {
		for _, resource := range strings.Fields(row.Resource) {
			r := row
			r.Resource, r.Group, _ = strings.Cut(resource, ".")
			out = append(out, r)
		}
	}
	return out
}

// rows are the rights on objects other than the chart's. A row may have several resources.
var rows = []Right{
	// csccm test.
	need("get", "namespaces", Tested, "test", "the namespace of the test").when("`--in` is given"),
	need("create delete", "namespaces", Tested, "test", "the namespace of the test").when("`--in` is not given"),
	need("create get delete", "services", Tested, "test", "the Service that is tested"),
	need("create get delete", "pods", Tested, "test", "the Pods that answer and ask"),
	need("get", "pods/log", Tested, "test", "what the Pod that asks has seen"),
	need("list", "events", Tested, "test", "why the Service has no address"),

	// The cluster.
	need("list", "nodes", Everywhere, diagnosing+" plan install uninstall takeover taint migrate-rules cks",
		"nodes and their VMs; how the cluster was made"),
	need("get", "nodes", Everywhere, "install taint", "a node that is being initialised"),
	need("patch", "nodes", Everywhere, "install taint", "the taint that makes the controller initialise existing nodes"),
	need("get", "nodes/proxy", Everywhere, diagnosing+" install taint cks",
		"how kubelets are started (/flagz)").without("only the Node objects show how kubelets are started"),
	need("get", "namespaces", Everywhere, diagnosing+" install uninstall takeover adopt plan",
		"whether it exists, and its Pod Security level; the UID of kube-system, which identifies the cluster"),
	need("list", "namespaces", Everywhere, diagnosing+" install upgrade",
		"labels by which the policy for tenants selects namespaces").without("check TEN-002 cannot evaluate policies with label selectors"),
	need("list", "validatingadmissionpolicies.admissionregistration.k8s.io validatingadmissionpolicybindings.admissionregistration.k8s.io", Everywhere, diagnosing+" install",
		"whether the chart's policies refuse").without("check TEN-001 is unknown"),
	need("create", "namespaces", Everywhere, "install takeover", "the namespace of the release").when("it does not exist"),
	need("list", "services", Everywhere, diagnosing+" plan install upgrade uninstall takeover adopt taint migrate-rules",
		"Services of type LoadBalancer"),
	need("list", "events", Everywhere, diagnosing+" install", "why something does not work"),
	need("watch", "services nodes events", Everywhere, "ui", "the page follows changes").without("the page follows changes with a delay"),
	need("watch", "leases.coordination.k8s.io", System, "ui", "the page follows changes").without("the page follows changes with a delay"),
	need("watch", "leases.coordination.k8s.io", Release, "ui", "the page follows changes").without("the page follows changes with a delay"),
	need("list", "events", Release, rollingOut, "why the controller's Pods do not start"),
	need("list watch", "endpointslices.discovery.k8s.io", Everywhere, diagnosing+" plan install takeover adopt",
		"the nodes with endpoints").when("a Service has `externalTrafficPolicy: Local`"),
	need("list", "deployments.apps daemonsets.apps", Everywhere, diagnosing+" install takeover taint cks", "the controller, and others"),
	need("list", "deployments.apps daemonsets.apps", Everywhere, "upgrade rollback rotate-keys uninstall test",
		"whether the release is in another namespace").without("a mistyped namespace is not noticed"),
	need("list", "deployments.apps daemonsets.apps", Everywhere, "migrate-rules", "whether a provider still works that would make rules again").
		when("rules are deleted, or Leaseweb's renamed"),
	need("list", "pods", System, "migrate-rules", "whether a provider still works that would make rules again").
		when("rules are deleted, or Leaseweb's renamed"),
	need("list", "persistentvolumes", Everywhere, diagnosing+" install taint", "volumes that are bound to the old name of a zone"),
	need("get", "csidrivers.storage.k8s.io", Everywhere, diagnosing+" install", "whether the CSI driver for CloudStack is used").without("checks STOR-001 and STOR-002 are unknown"),
	need("list", "csinodes.storage.k8s.io", Everywhere, diagnosing+" install", "nodes of the CSI driver for CloudStack").when("the driver is used").without("checks STOR-001 and STOR-002 are unknown"),
	need("list", "pods", Everywhere, "taint cks", "workload of the nodes; a Pod whose name keeps CKS from deploying its own provider"),
	need("list", "mutatingwebhookconfigurations.admissionregistration.k8s.io validatingwebhookconfigurations.admissionregistration.k8s.io", Everywhere, "taint",
		"webhooks that a node's change would wait for"),
	need("list", "leases.coordination.k8s.io", Heartbeats, diagnosing+" install", "clocks of nodes"),

	// Other providers, and how the cluster was created.
	need("get", "configmaps", System, diagnosing+" install uninstall cks", "kubeadm-config: whether kubeadm created the cluster"),
	need("get", "secrets", System, diagnosing+" install uninstall cks", "cloudstack-secret: whether CKS created the cluster"),
	need("list", "pods", System, diagnosing+" install takeover", "other providers"),
	need("list", "leases.coordination.k8s.io", System, diagnosing+" "+releasing, "which controller leads"),

	// The controller.
	need("list", "pods", Release, diagnosing+" taint uninstall "+rollingOut, "the controller's Pods"),
	need("get", "pods/log", Release, diagnosing+" "+rollingOut, "the controller's log"),
	need("get", "pods/proxy", Release, diagnosing+" install",
		"the controller's health and metrics").without("only the kubelet's probes show the controller's health"),
	need("list", "leases.coordination.k8s.io", Release, diagnosing+" "+releasing, "which controller leads"),
	need("get", "leases.coordination.k8s.io", System, "install taint takeover", "which controller leads"),
	need("list", "deployments.apps daemonsets.apps", Release, "plan adopt test uninstall "+rollingOut, "the controller's settings and rollout"),
	need("list", "replicasets.apps", Release, rollingOut, "the controller's rollout"),
	need("patch", "deployments.apps", Release, "rotate-keys", "restarts a controller that does not take the new keys by itself"),
	need("patch", "daemonsets.apps", Release, "rotate-keys",
		"restarts a controller that does not take the new keys by itself").when("`kind: DaemonSet`"),
	need("get", "secrets", Release, "test", "the cloud-config").without("CloudStack is not asked before the test"),
	need("get", "configmaps", Release, "test", "the CA of CloudStack's certificate").without("CloudStack is not asked before the test"),
	need("list", "secrets pods", Elsewhere, "uninstall", "others that work with the same keys").when("granted").without("a warning says so"),
	need("list", "secrets", Release, "rotate-keys", "other Secrets with a copy of the keys").without("the old keys stay until `rotate-keys --finish`"),
	need("list", "secrets pods", Elsewhere, "rotate-keys",
		"other Secrets with a copy of the keys, and what uses them").without("the old keys stay until `rotate-keys --finish`").when("granted"),
	need("get", "secrets", Release, diagnosing+" plan takeover adopt taint migrate-rules uninstall "+rollingOut,
		"the cloud-config; Helm's records"),
	need("list", "secrets", Release, diagnosing+" uninstall "+releasing, "Helm's records"),
	need("create update", "secrets", Release, releasing, "the cloud-config; Helm's records"),
	need("update", "secrets", Release, "rotate-keys uninstall", "the cloud-config; Helm's records"),
	need("delete", "secrets", Release, releasing+" uninstall", "Helm's oldest records; the cloud-config, if requested"),
	need("get", "configmaps", Release, diagnosing+" plan takeover taint adopt migrate-rules", "the CA of CloudStack's certificate"),
	need("get create update", "configmaps", Release, "install uninstall rotate-keys",
		"what was made in CloudStack (csccm-cloudstack); the CA of CloudStack's certificate"),
	need("delete", "configmaps", Release, "uninstall install",
		"the CA of CloudStack's certificate; the list of what csccm made in CloudStack").
		when("`--delete-secret` or `--delete-user` is given, or CloudStack has refused to make anything"),
	need("create get delete", "pods", Release, "install", "the controller's self-test"),
	need("create get delete", "pods", Release, "doctor", "reads the kubelet's command line on its node").when("`--probe-pod` is given"),

	// Replacing another provider.
	need("patch", "deployments.apps daemonsets.apps", System, "takeover", "stops the other provider"),
	need("delete", "deployments.apps daemonsets.apps", Release, "takeover", "ends csccm's controller").when("`--undo` is given"),
	need("list", "pods", Release, "takeover", "whether the controller's Pods have ended").when("`--undo` is given"),
	need("create update", "leases.coordination.k8s.io", System, "takeover", "holds the lease between the two controllers"),
	need("get", "services", Everywhere, "takeover", "annotations that an earlier takeover has written"),
	need("patch", "services", Everywhere, "takeover migrate-rules", "annotations that keep settings (`--pin`) and the previous state (`--undo`)"),

	// Shell completion.
	need("list", "namespaces services nodes", Everywhere, "completion", "names to choose from").without("no names are offered"),
}

// chartRights returns the rights on the chart's kinds of objects.
func chartRights() []Right {
	var out []Right
	for _, k := range []struct {
		resource string
		place    Place
		when     string
	}{
		{"serviceaccounts", Release, ""},
		{"deployments.apps", Release, ""},
		{"daemonsets.apps", Release, "`kind: DaemonSet`"},
		{"clusterroles.rbac.authorization.k8s.io", Everywhere, ""},
		{"clusterrolebindings.rbac.authorization.k8s.io", Everywhere, ""},
		{"roles.rbac.authorization.k8s.io", System, ""},
		{"rolebindings.rbac.authorization.k8s.io", System, ""},
		{"roles.rbac.authorization.k8s.io", Heartbeats, ""},
		{"rolebindings.rbac.authorization.k8s.io", Heartbeats, ""},
		{"poddisruptionbudgets.policy", Release, ""},
		{"validatingadmissionpolicies.admissionregistration.k8s.io", Everywhere, ""},
		{"validatingadmissionpolicybindings.admissionregistration.k8s.io", Everywhere, ""},
		{"services", Release, "`serviceMonitor.enabled`"},
		{"configmaps", Release, "`grafanaDashboard.enabled`"},
		{"servicemonitors.monitoring.coreos.com", Release, "`serviceMonitor.enabled`"},
		{"prometheusrules.monitoring.coreos.com", Release, "`prometheusRule.enabled`"},
	} {
		for _, r := range []Right{
			need("get create patch", k.resource, k.place, releasing, "objects of the chart; `patch` also for dry runs"),
			need("get delete", k.resource, k.place, "upgrade rollback uninstall", "objects of the chart"),
			need("get patch", k.resource, k.place, diagnosing, "whether objects differ from the release (dry run)").
				without("check HELM-003 is unknown"),
		} {
			r.Chart, r.When = true, k.when
			out = append(out, r)
		}
	}
	return out
}
