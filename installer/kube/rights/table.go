// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	rbacv1 "k8s.io/api/rbac/v1"
)

const (
	apps       = "apps"
	leases     = "coordination.k8s.io"
	admission  = "admissionregistration.k8s.io"
	monitoring = "monitoring.coreos.com"
)

// Groups of commands.
const (
	diagnosing = "doctor status support-bundle"         // read only
	releasing  = "install upgrade rollback"             // write the Helm release
	rollingOut = "install upgrade rollback rotate-keys" // wait until the controller's Pods are ready
)

// Table returns all permissions that csccm needs, except those that every authenticated user has: versions, API
// discovery and self-subject access reviews.
func Table() []Right {
	out := []Right{
		// csccm test.
		{Verbs: words("get"), Resource: "namespaces", Place: Tested, Commands: words("test"), Why: "the namespace of the test"},
		{Verbs: words("create delete"), Resource: "namespaces", Place: Tested, Commands: words("test"), Why: "the namespace of the test", When: "`--in` is not given"},
		{Verbs: words("create get list delete"), Resource: "services", Place: Tested, Commands: words("test"), Why: "the Service that is tested"},
		{Verbs: words("create get list delete"), Resource: "pods", Place: Tested, Commands: words("test"), Why: "the Pods that answer and ask"},
		{Verbs: words("get"), Resource: "pods/log", Place: Tested, Commands: words("test"), Why: "what the Pod that asks has seen"},
		{Verbs: words("list"), Resource: "events", Place: Tested, Commands: words("test"), Why: "why the Service has no address"},

		// The cluster.
		{
			Verbs: words("list"), Resource: "nodes", Commands: words(diagnosing + " plan install uninstall takeover taint migrate-rules cks"),
			Why: "nodes and their VMs; how the cluster was made",
		},
		{Verbs: words("get"), Resource: "nodes", Commands: words("install taint"), Why: "a node that is being initialised"},
		{Verbs: words("patch"), Resource: "nodes", Commands: words("install taint"), Why: "the taint that makes the controller initialise existing nodes"},
		{
			Verbs: words("get"), Resource: "nodes/proxy", Commands: words(diagnosing + " install taint"), Why: "how kubelets are started (/flagz)",
			Without: "only the Node objects show how kubelets are started",
		},
		{Verbs: words("get"), Resource: "namespaces", Commands: words(diagnosing + " install takeover adopt plan"), Why: "whether it exists, and its Pod Security level; the UID of kube-system, which is the default cluster ID"},
		{
			Verbs: words("list"), Resource: "namespaces", Commands: words(diagnosing + " install upgrade"), Why: "labels by which the policy for tenants selects namespaces",
			Without: "check TEN-002 cannot evaluate policies with label selectors",
		},
		{
			Verbs: words("list"), Group: admission, Resource: "validatingadmissionpolicies", Commands: words(diagnosing + " install"),
			Why: "whether the chart's policies refuse", Without: "check TEN-001 is unknown",
		},
		{
			Verbs: words("list"), Group: admission, Resource: "validatingadmissionpolicybindings", Commands: words(diagnosing + " install"),
			Why: "whether the chart's policies refuse", Without: "check TEN-001 is unknown",
		},
		{Verbs: words("create"), Resource: "namespaces", Commands: words("install takeover"), Why: "the namespace of the release", When: "it does not exist"},
		{
			Verbs: words("list"), Resource: "services", Commands: words(diagnosing + " plan install upgrade uninstall takeover adopt taint migrate-rules"),
			Why: "Services of type LoadBalancer",
		},
		{Verbs: words("list"), Resource: "events", Commands: words(diagnosing + " install"), Why: "why something does not work"},
		{Verbs: words("list"), Resource: "events", Place: Release, Commands: words(rollingOut), Why: "why the controller's Pods do not start"},
		{Verbs: words("list"), Group: apps, Resource: "deployments", Commands: words(diagnosing + " install takeover taint"), Why: "the controller, and others"},
		{
			Verbs: words("list"), Group: apps, Resource: "deployments", Commands: words("upgrade rollback rotate-keys uninstall test"),
			Why: "whether the release is in another namespace", Without: "a mistyped namespace is not noticed",
		},
		{Verbs: words("list"), Group: apps, Resource: "daemonsets", Commands: words(diagnosing + " install takeover taint"), Why: "the controller, and others"},
		{
			Verbs: words("list"), Group: apps, Resource: "daemonsets", Commands: words("upgrade rollback rotate-keys uninstall test"),
			Why: "whether the release is in another namespace", Without: "a mistyped namespace is not noticed",
		},
		{Verbs: words("list"), Resource: "persistentvolumes", Commands: words(diagnosing + " install taint"), Why: "volumes that are bound to the old name of a zone"},
		{Verbs: words("list"), Resource: "pods", Commands: words("taint cks"), Why: "workload of the nodes; a Pod whose name keeps CKS from deploying its own provider"},
		{
			Verbs: words("list"), Group: admission, Resource: "mutatingwebhookconfigurations", Commands: words("taint"),
			Why: "webhooks that a node's change would wait for",
		},
		{
			Verbs: words("list"), Group: admission, Resource: "validatingwebhookconfigurations", Commands: words("taint"),
			Why: "webhooks that a node's change would wait for",
		},
		{Verbs: words("list"), Group: leases, Resource: "leases", Place: Heartbeats, Commands: words(diagnosing + " install"), Why: "clocks of nodes"},

		// Other providers, and how the cluster was created.
		{Verbs: words("get"), Resource: "configmaps", Place: System, Commands: words(diagnosing + " install uninstall"), Why: "kubeadm-config: whether kubeadm created the cluster"},
		{Verbs: words("get"), Resource: "secrets", Place: System, Commands: words(diagnosing + " install uninstall"), Why: "cloudstack-secret: whether CKS created the cluster"},
		{Verbs: words("get"), Group: apps, Resource: "deployments", Place: System, Commands: words(diagnosing + " install uninstall"), Why: "the provider that CKS installs"},
		{Verbs: words("list"), Resource: "pods", Place: System, Commands: words(diagnosing + " install takeover"), Why: "other providers"},
		{Verbs: words("list"), Group: leases, Resource: "leases", Place: System, Commands: words(diagnosing + " install"), Why: "which controller leads"},

		// The controller.
		{Verbs: words("list"), Resource: "pods", Place: Release, Commands: words(diagnosing + " taint uninstall " + rollingOut), Why: "the controller's Pods"},
		{Verbs: words("get"), Resource: "pods/log", Place: Release, Commands: words(diagnosing + " " + rollingOut), Why: "the controller's log"},
		{
			Verbs: words("get"), Resource: "pods/proxy", Place: Release, Commands: words(diagnosing + " install"), Why: "the controller's health and metrics",
			Without: "only the kubelet's probes show the controller's health",
		},
		{Verbs: words("list"), Group: leases, Resource: "leases", Place: Release, Commands: words(diagnosing + " install"), Why: "which controller leads"},
		{Verbs: words("get"), Group: leases, Resource: "leases", Place: System, Commands: words("install taint takeover uninstall"), Why: "which controller leads"},
		{Verbs: words("update"), Group: leases, Resource: "leases", Place: System, Commands: words("uninstall"), Why: "frees the lease of the controller, which can no longer do so", Without: "the next controller leads when the lease has expired"},
		{Verbs: words("list"), Group: apps, Resource: "deployments", Place: Release, Commands: words("plan adopt test " + rollingOut), Why: "the controller's settings and rollout"},
		{Verbs: words("list"), Group: apps, Resource: "daemonsets", Place: Release, Commands: words("plan adopt test " + rollingOut), Why: "the controller's settings and rollout"},
		{Verbs: words("list"), Group: apps, Resource: "replicasets", Place: Release, Commands: words(rollingOut), Why: "the controller's rollout"},
		{Verbs: words("patch"), Group: apps, Resource: "deployments", Place: Release, Commands: words("rotate-keys"), Why: "restarts a controller that does not take the new keys by itself"},
		{
			Verbs: words("patch"), Group: apps, Resource: "daemonsets", Place: Release, Commands: words("rotate-keys"),
			Why: "restarts a controller that does not take the new keys by itself", When: "`kind: DaemonSet`",
		},
		{
			Verbs: words("get"), Resource: "secrets", Place: Release, Commands: words(diagnosing + " plan takeover adopt taint migrate-rules uninstall " + rollingOut),
			Why: "the cloud-config; Helm's records",
		},
		{Verbs: words("list"), Resource: "secrets", Place: Release, Commands: words(diagnosing + " uninstall " + releasing), Why: "Helm's records"},
		{Verbs: words("create update"), Resource: "secrets", Place: Release, Commands: words(releasing), Why: "the cloud-config; Helm's records"},
		{Verbs: words("update"), Resource: "secrets", Place: Release, Commands: words("rotate-keys uninstall"), Why: "the cloud-config; Helm's records"},
		{Verbs: words("delete"), Resource: "secrets", Place: Release, Commands: words(releasing + " uninstall"), Why: "Helm's oldest records; the cloud-config, if requested"},
		{
			Verbs: words("get"), Resource: "configmaps", Place: Release, Commands: words(diagnosing + " plan"),
			Why: "the CA of CloudStack's certificate",
		},
		{
			Verbs: words("get create update"), Resource: "configmaps", Place: Release, Commands: words("takeover taint adopt migrate-rules uninstall " + rollingOut),
			Why: "what was done (csccm-journal) and made in CloudStack (csccm-cloudstack), nodes and Services as they were; the CA of CloudStack's certificate",
		},
		{Verbs: words("delete"), Resource: "configmaps", Place: Release, Commands: words("uninstall install"), Why: "the CA of CloudStack's certificate; the list of what csccm made in CloudStack", When: "`--delete-secret` or `--delete-user` is given, or CloudStack has refused to make anything"},
		{Verbs: words("create get delete"), Resource: "pods", Place: Release, Commands: words("install"), Why: "the controller's self-test"},
		{
			Verbs: words("create get delete"), Resource: "pods", Place: Release, Commands: words("doctor"), Why: "reads the kubelet's command line on its node",
			When: "`--probe-pod` is given",
		},

		// Replacing another provider.
		{
			Verbs: words("patch delete"), Group: apps, Resource: "deployments", Place: System, Commands: words("takeover"), Why: "stops and removes the other provider",
		},
		{
			Verbs: words("patch delete"), Group: apps, Resource: "daemonsets", Place: System, Commands: words("takeover"), Why: "stops and removes the other provider",
		},
		{
			Verbs: words("delete"), Group: apps, Resource: "deployments", Place: Release, Commands: words("takeover"), Why: "ends csccm's controller", When: "`--undo` is given",
		},
		{
			Verbs: words("delete"), Group: apps, Resource: "daemonsets", Place: Release, Commands: words("takeover"), Why: "ends csccm's controller", When: "`--undo` is given",
		},
		{Verbs: words("list"), Resource: "pods", Place: Release, Commands: words("takeover"), Why: "whether the controller's Pods have ended", When: "`--undo` is given"},
		{Verbs: words("list delete"), Resource: "secrets", Place: System, Commands: words("takeover"), Why: "the other provider's Helm records"},
		{Verbs: words("delete"), Resource: "serviceaccounts", Place: System, Commands: words("takeover"), Why: "removes those of the other provider"},
		{Verbs: words("list delete"), Group: rbacv1.GroupName, Resource: "clusterroles", Commands: words("takeover"), Why: "removes those of the other provider"},
		{Verbs: words("list delete"), Group: rbacv1.GroupName, Resource: "clusterrolebindings", Commands: words("takeover"), Why: "removes those of the other provider"},
		{Verbs: words("list"), Group: rbacv1.GroupName, Resource: "rolebindings", Commands: words("takeover"), Why: "finds those of the other provider"},
		{Verbs: words("delete"), Group: rbacv1.GroupName, Resource: "rolebindings", Place: System, Commands: words("takeover"), Why: "removes those of the other provider"},
		{Verbs: words("create update"), Group: leases, Resource: "leases", Place: System, Commands: words("takeover"), Why: "holds the lease between the two controllers"},
		{Verbs: words("get patch"), Resource: "services", Commands: words("takeover"), Why: "annotations that keep current settings (`--pin`), and their previous values (`--undo`)"},
		{Verbs: words("get update"), Resource: "services", Commands: words("uninstall"), Why: "their finalizer", When: "`--remove-finalizers` is given"},

		// Shell completion.
		{Verbs: words("list"), Resource: "namespaces", Commands: words("completion"), Why: "names to choose from", Without: "no names are offered"},
		{Verbs: words("list"), Resource: "services", Commands: words("completion"), Why: "names to choose from", Without: "no names are offered"},
		{Verbs: words("list"), Resource: "nodes", Commands: words("completion"), Why: "names to choose from", Without: "no names are offered"},
	}
	return append(out, chartRights()...)
}

// chartRights returns the rights on the chart's kinds of objects.
func chartRights() []Right {
	var out []Right
	for _, k := range []struct {
		group, resource string
		place           Place
		when            string
	}{
		{"", "serviceaccounts", Release, ""},
		{apps, "deployments", Release, ""},
		{apps, "daemonsets", Release, "`kind: DaemonSet`"},
		{rbacv1.GroupName, "clusterroles", Everywhere, ""},
		{rbacv1.GroupName, "clusterrolebindings", Everywhere, ""},
		{rbacv1.GroupName, "roles", System, ""},
		{rbacv1.GroupName, "rolebindings", System, ""},
		{"policy", "poddisruptionbudgets", Release, ""},
		{admission, "validatingadmissionpolicies", Everywhere, ""},
		{admission, "validatingadmissionpolicybindings", Everywhere, ""},
		{"networking.k8s.io", "networkpolicies", Release, "`networkPolicy.enabled`"},
		{"", "services", Release, "`serviceMonitor.enabled`"},
		{"", "configmaps", Release, "`grafanaDashboard.enabled`"},
		{monitoring, "servicemonitors", Release, "`serviceMonitor.enabled`"},
		{monitoring, "podmonitors", Release, "`podMonitor.enabled`"},
		{monitoring, "prometheusrules", Release, "`prometheusRule.enabled`"},
	} {
		out = append(
			out,
			Right{
				Verbs: words("get create patch"), Group: k.group, Resource: k.resource, Place: k.place, Commands: words(releasing), When: k.when, Chart: true,
				Why: "objects of the chart; `patch` also for dry runs",
			},
			Right{
				Verbs: words("get delete"), Group: k.group, Resource: k.resource, Place: k.place, Commands: words("upgrade rollback uninstall"), When: k.when, Chart: true,
				Why: "objects of the chart",
			},
			Right{
				Verbs: words("get patch"), Group: k.group, Resource: k.resource, Place: k.place, Commands: words(diagnosing), When: k.when, Chart: true,
				Why: "whether objects differ from the release (dry run)", Without: "check HELM-003 is unknown",
			},
		)
	}
	return out
}
