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
	looking  = "doctor status support-bundle"
	charting = "install upgrade rollback"
	rolling  = "install upgrade rollback rotate-keys" // wait until the controller's Pods run
)

// Table is all that csccm asks of the API server, but for what everybody may: versions, the list of APIs, and which rights
// one has oneself.
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
			Verbs: words("list"), Resource: "nodes", Commands: words(looking + " plan install uninstall takeover taint migrate-rules cks"),
			Why: "nodes and their VMs; how the cluster was made",
		},
		{Verbs: words("get"), Resource: "nodes", Commands: words("install taint"), Why: "a node that is being initialised"},
		{Verbs: words("patch"), Resource: "nodes", Commands: words("install taint"), Why: "the taint by which existing nodes are initialised"},
		{
			Verbs: words("get"), Resource: "nodes/proxy", Commands: words(looking + " install taint"), Why: "how kubelets are started (/flagz)",
			Without: "kubelets are judged by what they leave on their nodes",
		},
		{Verbs: words("get"), Resource: "namespaces", Commands: words(looking + " install takeover adopt plan"), Why: "whether it is there, and its Pod Security level; kube-system's UID, the name of a cluster that has no other"},
		{
			Verbs: words("list"), Resource: "namespaces", Commands: words(looking + " install upgrade"), Why: "labels by which the policy for tenants selects namespaces",
			Without: "what a policy with label selectors refuses is not known (check TEN-002)",
		},
		{
			Verbs: words("list"), Group: admission, Resource: "validatingadmissionpolicies", Commands: words(looking + " install"),
			Why: "whether the chart's policies refuse", Without: "check TEN-001 is unknown",
		},
		{
			Verbs: words("list"), Group: admission, Resource: "validatingadmissionpolicybindings", Commands: words(looking + " install"),
			Why: "whether the chart's policies refuse", Without: "check TEN-001 is unknown",
		},
		{Verbs: words("create"), Resource: "namespaces", Commands: words("install takeover"), Why: "the namespace of the release", When: "it does not exist"},
		{
			Verbs: words("list"), Resource: "services", Commands: words(looking + " plan install upgrade uninstall takeover adopt taint migrate-rules"),
			Why: "Services of type LoadBalancer",
		},
		{Verbs: words("list"), Resource: "events", Commands: words(looking + " install"), Why: "why something does not work"},
		{Verbs: words("list"), Resource: "events", Place: Release, Commands: words(rolling), Why: "why the controller's Pods do not start"},
		{Verbs: words("list"), Group: apps, Resource: "deployments", Commands: words(looking + " install takeover taint"), Why: "the controller, and others"},
		{
			Verbs: words("list"), Group: apps, Resource: "deployments", Commands: words("upgrade rollback rotate-keys uninstall test"),
			Why: "whether the release is in another namespace", Without: "a mistyped namespace is not noticed",
		},
		{Verbs: words("list"), Group: apps, Resource: "daemonsets", Commands: words(looking + " install takeover taint"), Why: "the controller, and others"},
		{
			Verbs: words("list"), Group: apps, Resource: "daemonsets", Commands: words("upgrade rollback rotate-keys uninstall test"),
			Why: "whether the release is in another namespace", Without: "a mistyped namespace is not noticed",
		},
		{Verbs: words("list"), Resource: "persistentvolumes", Commands: words(looking + " install taint"), Why: "volumes that are bound to a zone's old name"},
		{Verbs: words("list"), Resource: "pods", Commands: words("taint cks"), Why: "what runs on the nodes; a Pod by whose name CKS leaves the provider alone"},
		{
			Verbs: words("list"), Group: admission, Resource: "mutatingwebhookconfigurations", Commands: words("taint"),
			Why: "webhooks that a node's change would wait for",
		},
		{
			Verbs: words("list"), Group: admission, Resource: "validatingwebhookconfigurations", Commands: words("taint"),
			Why: "webhooks that a node's change would wait for",
		},
		{Verbs: words("list"), Group: leases, Resource: "leases", Place: Heartbeats, Commands: words(looking + " install"), Why: "clocks of nodes"},

		// Other providers, and what tells how the cluster was made.
		{Verbs: words("get"), Resource: "configmaps", Place: System, Commands: words(looking + " install uninstall"), Why: "kubeadm-config: the cluster was made by kubeadm"},
		{Verbs: words("get"), Resource: "secrets", Place: System, Commands: words(looking + " install uninstall"), Why: "cloudstack-secret: the cluster was made by CKS"},
		{Verbs: words("get"), Group: apps, Resource: "deployments", Place: System, Commands: words(looking + " install uninstall"), Why: "the provider that CKS installs"},
		{Verbs: words("list"), Resource: "pods", Place: System, Commands: words(looking + " install takeover"), Why: "other providers"},
		{Verbs: words("list"), Group: leases, Resource: "leases", Place: System, Commands: words(looking + " install"), Why: "which controller leads"},

		// The controller.
		{Verbs: words("list"), Resource: "pods", Place: Release, Commands: words(looking + " taint uninstall " + rolling), Why: "the controller's Pods"},
		{Verbs: words("get"), Resource: "pods/log", Place: Release, Commands: words(looking + " " + rolling), Why: "what the controller says"},
		{
			Verbs: words("get"), Resource: "pods/proxy", Place: Release, Commands: words(looking + " install"), Why: "the controller's health and metrics",
			Without: "the kubelet's probe is believed",
		},
		{Verbs: words("list"), Group: leases, Resource: "leases", Place: Release, Commands: words(looking + " install"), Why: "which controller leads"},
		{Verbs: words("get"), Group: leases, Resource: "leases", Place: System, Commands: words("install taint takeover uninstall"), Why: "which controller leads"},
		{Verbs: words("update"), Group: leases, Resource: "leases", Place: System, Commands: words("uninstall"), Why: "frees the lease of the controller, which can no longer do so", Without: "the next controller leads when the lease has expired"},
		{Verbs: words("list"), Group: apps, Resource: "deployments", Place: Release, Commands: words("plan adopt test " + rolling), Why: "the controller's settings and rollout"},
		{Verbs: words("list"), Group: apps, Resource: "daemonsets", Place: Release, Commands: words("plan adopt test " + rolling), Why: "the controller's settings and rollout"},
		{Verbs: words("list"), Group: apps, Resource: "replicasets", Place: Release, Commands: words(rolling), Why: "the controller's rollout"},
		{Verbs: words("patch"), Group: apps, Resource: "deployments", Place: Release, Commands: words("rotate-keys"), Why: "restarts a controller that does not take the new keys by itself"},
		{
			Verbs: words("patch"), Group: apps, Resource: "daemonsets", Place: Release, Commands: words("rotate-keys"),
			Why: "restarts a controller that does not take the new keys by itself", When: "`kind: DaemonSet`",
		},
		{
			Verbs: words("get"), Resource: "secrets", Place: Release, Commands: words(looking + " plan takeover adopt taint migrate-rules uninstall " + rolling),
			Why: "the cloud-config; Helm's records",
		},
		{Verbs: words("list"), Resource: "secrets", Place: Release, Commands: words(looking + " uninstall " + charting), Why: "Helm's records"},
		{Verbs: words("create update"), Resource: "secrets", Place: Release, Commands: words(charting), Why: "the cloud-config; Helm's records"},
		{Verbs: words("update"), Resource: "secrets", Place: Release, Commands: words("rotate-keys uninstall"), Why: "the cloud-config; Helm's records"},
		{Verbs: words("delete"), Resource: "secrets", Place: Release, Commands: words(charting + " uninstall"), Why: "Helm's oldest records; the cloud-config, when told"},
		{
			Verbs: words("get"), Resource: "configmaps", Place: Release, Commands: words(looking + " plan adopt migrate-rules"),
			Why: "the CA of CloudStack's certificate",
		},
		{
			Verbs: words("get create update"), Resource: "configmaps", Place: Release, Commands: words("takeover taint uninstall " + rolling),
			Why: "what was done (csccm-journal) and made in CloudStack (csccm-cloudstack), nodes and Services as they were; the CA of CloudStack's certificate",
		},
		{Verbs: words("delete"), Resource: "configmaps", Place: Release, Commands: words("uninstall install"), Why: "the CA of CloudStack's certificate; the list of what csccm made in CloudStack", When: "`--delete-secret` or `--delete-user` is given, or CloudStack has refused to make anything"},
		{Verbs: words("create get delete"), Resource: "pods", Place: Release, Commands: words("install"), Why: "the controller's self-test"},
		{
			Verbs: words("create get delete"), Resource: "pods", Place: Release, Commands: words("doctor"), Why: "a look at a kubelet's own node",
			When: "`--probe-pod` is given",
		},

		// The place of another provider.
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
		{Verbs: words("list"), Resource: "pods", Place: Release, Commands: words("takeover"), Why: "the controller's Pods have ended", When: "`--undo` is given"},
		{Verbs: words("list delete"), Resource: "secrets", Place: System, Commands: words("takeover"), Why: "the other provider's Helm records"},
		{Verbs: words("delete"), Resource: "serviceaccounts", Place: System, Commands: words("takeover"), Why: "the other provider's"},
		{Verbs: words("list delete"), Group: rbacv1.GroupName, Resource: "clusterroles", Commands: words("takeover"), Why: "the other provider's"},
		{Verbs: words("list delete"), Group: rbacv1.GroupName, Resource: "clusterrolebindings", Commands: words("takeover"), Why: "the other provider's"},
		{Verbs: words("list"), Group: rbacv1.GroupName, Resource: "rolebindings", Commands: words("takeover"), Why: "the other provider's"},
		{Verbs: words("delete"), Group: rbacv1.GroupName, Resource: "rolebindings", Place: System, Commands: words("takeover"), Why: "the other provider's"},
		{Verbs: words("create update"), Group: leases, Resource: "leases", Place: System, Commands: words("takeover"), Why: "holds the lease between the two controllers"},
		{Verbs: words("get patch"), Resource: "services", Commands: words("takeover"), Why: "annotations that keep what stands (`--pin`), and their values of before (`--undo`)"},
		{Verbs: words("get update"), Resource: "services", Commands: words("uninstall"), Why: "their finalizer", When: "`--remove-finalizers` is given"},

		// A <TAB>.
		{Verbs: words("list"), Resource: "namespaces", Commands: words("completion"), Why: "names to choose from", Without: "no names are offered"},
		{Verbs: words("list"), Resource: "services", Commands: words("completion"), Why: "names to choose from", Without: "no names are offered"},
		{Verbs: words("list"), Resource: "nodes", Commands: words("completion"), Why: "names to choose from", Without: "no names are offered"},
	}
	return append(out, chartRights()...)
}

// chartRights are those about the chart's kinds of objects.
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
				Verbs: words("get create patch"), Group: k.group, Resource: k.resource, Place: k.place, Commands: words(charting), When: k.when, Chart: true,
				Why: "of the chart; `patch` also asks without a change (dry run)",
			},
			Right{
				Verbs: words("get delete"), Group: k.group, Resource: k.resource, Place: k.place, Commands: words("upgrade rollback uninstall"), When: k.when, Chart: true,
				Why: "of the chart",
			},
			Right{
				Verbs: words("get patch"), Group: k.group, Resource: k.resource, Place: k.place, Commands: words(looking), When: k.when, Chart: true,
				Why: "whether they are as the release says (dry run)", Without: "check HELM-003 is unknown",
			},
		)
	}
	return out
}
