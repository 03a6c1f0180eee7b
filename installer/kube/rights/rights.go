// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rights is the table of the permissions that csccm needs in Kubernetes. Check K8S-003 and docs/csccm-rights.yaml are
// based on it, and the system tests compare it with the API server's audit log.
package rights

import (
	"context"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
)

//go:generate go test . -run TestRoles -update

// Names of the roles of docs/csccm-rights.yaml and of the groups that they are bound to.
const (
	Operator = "csccm-operator"
	Reader   = "csccm-reader"
)

// Place is the namespace in which a right is needed.
type Place string

// Places.
const (
	// Everywhere is for cluster-scoped resources and for resources that are needed in all namespaces.
	Everywhere Place = ""
	// Release is the namespace of the release.
	Release Place = "release"
	// System is the namespace of other providers, their lease and kubeadm's settings.
	System Place = "kube-system"
	// Heartbeats is the namespace in which kubelets renew their leases.
	Heartbeats Place = "kube-node-lease"
	// Elsewhere is all namespaces, for requests that csccm sends only if the user has the permission. No role of
	// docs/csccm-rights.yaml grants it.
	Elsewhere Place = "everywhere, if granted"
	// Tested is the namespace in which csccm test works. No role of docs/csccm-rights.yaml grants it.
	Tested Place = "namespace of csccm test"
)

// Namespace returns the name of the namespace; "" for Everywhere.
func (p Place) Namespace(release string) string {
	if p == Release {
		return release
	}
	return string(p)
}

// Right is one row of the table.
type Right struct {
	Verbs []string
	Group string
	// Resource includes the subresource, if any: pods/log.
	Resource string
	Place    Place
	// Commands are the commands of csccm that need the right.
	Commands  []string
	Why       string
	Optional  bool // csccm can continue without it
	Sometimes bool // it is needed only under a condition
	// Chart marks rights on objects of the chart, which are needed only if the rendered chart has such objects.
	Chart bool
}

// Request is one verb of a right, with the attributes of a SubjectAccessReview.
type Request struct{ Verb, Group, Resource, Namespace string }

func (r Request) String() string {
	what := r.Verb + " " + schema.GroupResource{Group: r.Group, Resource: r.Resource}.String()
	if r.Namespace != "" {
		what += " in " + r.Namespace
	}
	return what
}

// Allowed asks the API server whether the caller may do it.
func (r Request) Allowed(ctx context.Context, kube kubernetes.Interface) (bool, error) {
	resource, subresource, _ := strings.Cut(r.Resource, "/")
	answer, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: r.Verb, Group: r.Group, Resource: resource, Subresource: subresource, Namespace: r.Namespace,
		}},
	}, metav1.CreateOptions{})
	return err == nil && answer.Status.Allowed, err
}

// Requests returns the unconditional requests of a command; it can continue without the optional ones. release is the
// namespace of the release. kinds are the kinds of objects in the rendered chart; nil means those of the default
// values.
func Requests(command, release string, kinds []schema.GroupResource) (needed, optional []Request) {
	table := Table()
	for i := range table {
		r := &table[i]
		skip := r.Sometimes
		if r.Chart && kinds != nil {
			skip = !slices.Contains(kinds, schema.GroupResource{Group: r.Group, Resource: r.Resource})
		}
		if skip || !slices.Contains(r.Commands, command) {
			continue
		}
		to := &needed
		if r.Optional {
			to = &optional
		}
		for _, verb := range r.Verbs {
			if x := (Request{verb, r.Group, r.Resource, r.Place.Namespace(release)}); !slices.Contains(*to, x) {
				*to = append(*to, x)
			}
		}
	}
	return needed, slices.DeleteFunc(optional, func(x Request) bool { return slices.Contains(needed, x) })
}

// Groups of commands.
const (
	diagnosing = "doctor status support-bundle ui"      // read only
	releasing  = "install upgrade rollback"             // write the Helm release
	rollingOut = "install upgrade rollback rotate-keys" // wait until the controller's Pods are ready
)

// Resources with long names.
const (
	policies = "validatingadmissionpolicies.admissionregistration.k8s.io validatingadmissionpolicybindings.admissionregistration.k8s.io"
	webhooks = "mutatingwebhookconfigurations.admissionregistration.k8s.io validatingwebhookconfigurations.admissionregistration.k8s.io"
)

// need returns a row of the table. Resources of an API group are written as kubectl names them: leases.coordination.k8s.io.
func need(verbs, resources string, place Place, commands, why string) Right {
	return Right{Verbs: strings.Fields(verbs), Resource: resources, Place: place, Commands: strings.Fields(commands), Why: why}
}

// optional is for a right without which csccm can continue.
func (r Right) optional() Right { r.Optional = true; return r }

// sometimes is for a right that only the condition in its reason needs.
func (r Right) sometimes() Right { r.Sometimes = true; return r }

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
	need("get", "namespaces", Tested, "test", "the namespace of the test, if `--in` is given").sometimes(),
	need("create delete", "namespaces", Tested, "test", "the namespace of the test, if `--in` is not given").sometimes(),
	need("create get delete", "services pods", Tested, "test", "the Service that is tested; the Pods that answer and ask"),
	need("get", "pods/log", Tested, "test", "what the Pod that asks has seen"),

	// The cluster.
	need("list", "nodes", Everywhere, diagnosing+" plan install uninstall takeover taint migrate-rules cks", "nodes and their VMs"),
	need("get patch", "nodes", Everywhere, "install taint", "the taint that makes the controller initialise existing nodes"),
	need("get", "nodes/proxy", Everywhere, diagnosing+" install taint cks", "how kubelets are started (/flagz)").optional(),
	need("get", "namespaces", Everywhere, diagnosing+" install uninstall takeover adopt plan",
		"its Pod Security level; the UID of kube-system"),
	need("list", "namespaces", Everywhere, diagnosing+" install upgrade", "which the policy for tenants selects").optional(),
	need("list", policies, Everywhere, diagnosing+" install", "whether the chart's policies refuse").optional(),
	need("create", "namespaces", Everywhere, "install takeover", "the namespace of the release, if it does not exist").sometimes(),
	need("list", "services", Everywhere, diagnosing+" plan install upgrade uninstall takeover adopt taint migrate-rules",
		"Services of type LoadBalancer"),
	need("list", "events", Everywhere, diagnosing+" install", "why something does not work"),
	need("watch", "services nodes events", Everywhere, "ui", "the page follows changes").optional(),
	need("watch", "leases.coordination.k8s.io", System, "ui", "the page follows changes").optional(),
	need("watch", "leases.coordination.k8s.io", Release, "ui", "the page follows changes").optional(),
	need("list", "events", Release, rollingOut, "why the controller's Pods do not start"),
	need("list watch", "endpointslices.discovery.k8s.io", Everywhere, diagnosing+" plan install takeover adopt",
		"the nodes with endpoints, if a Service has `externalTrafficPolicy: Local`").sometimes(),
	need("list", "deployments.apps daemonsets.apps", Everywhere, diagnosing+" install takeover taint cks", "the controller, and others"),
	need("list", "deployments.apps daemonsets.apps", Everywhere, "upgrade rollback rotate-keys uninstall test",
		"a mistyped namespace").optional(),
	need("list", "deployments.apps daemonsets.apps", Everywhere, "migrate-rules", "a provider that would make rules again").sometimes(),
	need("list", "pods leases.coordination.k8s.io", System, "migrate-rules", "a provider that would make rules again").sometimes(),
	need("list", "persistentvolumes", Everywhere, diagnosing+" install taint", "volumes that are bound to the old name of a zone"),
	need("get", "csidrivers.storage.k8s.io", Everywhere, diagnosing+" install", "whether the CSI driver for CloudStack is used").optional(),
	need("list", "csinodes.storage.k8s.io", Everywhere, diagnosing+" install",
		"nodes of the CSI driver for CloudStack, if the driver is used").optional().sometimes(),
	need("list", "pods", Everywhere, "taint cks", "workload of the nodes; a Pod whose name keeps CKS from deploying its own provider"),
	need("list", webhooks, Everywhere, "taint", "webhooks that a node's change would wait for"),
	need("list", "leases.coordination.k8s.io", Heartbeats, diagnosing+" install", "clocks of nodes"),

	// Other providers, and how the cluster was created.
	need("get", "configmaps secrets", System, diagnosing+" install uninstall cks", "kubeadm-config, cloudstack-secret: who made the cluster"),
	need("list", "pods", System, diagnosing+" install takeover taint", "other providers"),
	need("list", "leases.coordination.k8s.io", System, diagnosing+" takeover taint "+releasing, "which controller leads"),

	// The controller.
	need("list", "pods", Release, diagnosing+" taint uninstall "+rollingOut, "the controller's Pods"),
	need("get", "pods/log", Release, diagnosing+" "+rollingOut, "the controller's log"),
	need("get", "pods/proxy", Release, diagnosing+" install", "the controller's health and metrics").optional(),
	need("list", "leases.coordination.k8s.io", Release, diagnosing+" "+releasing, "which controller leads"),
	need("get", "leases.coordination.k8s.io", System, "install taint takeover", "which controller leads"),
	need("list", "deployments.apps daemonsets.apps", Release, "plan adopt test uninstall "+rollingOut,
		"the controller's settings and rollout"),
	need("list", "replicasets.apps", Release, rollingOut, "the controller's rollout"),
	need("patch", "deployments.apps", Release, "rotate-keys", "restarts the controller"),
	need("patch", "daemonsets.apps", Release, "rotate-keys", "restarts the controller, if `kind: DaemonSet`").sometimes(),
	need("get", "secrets configmaps", Release, "test", "the cloud-config; the CA of CloudStack's certificate").optional(),
	need("list", "secrets pods", Elsewhere, "uninstall", "others with the same keys, if granted").optional().sometimes(),
	need("list", "secrets", Release, "rotate-keys", "other Secrets with a copy of the keys").optional(),
	need("list", "secrets pods", Elsewhere, "rotate-keys", "copies of the keys, and what uses them, if granted").optional().sometimes(),
	need("get", "secrets", Release, diagnosing+" plan takeover adopt taint migrate-rules uninstall "+rollingOut,
		"the cloud-config; Helm's records"),
	need("list", "secrets", Release, diagnosing+" uninstall "+releasing, "Helm's records"),
	need("create update", "secrets", Release, releasing, "the cloud-config; Helm's records"),
	need("update", "secrets", Release, "rotate-keys uninstall", "the cloud-config; Helm's records"),
	need("delete", "secrets", Release, releasing+" uninstall", "Helm's oldest records; the cloud-config, if requested"),
	need("get", "configmaps", Release, diagnosing+" plan takeover taint adopt migrate-rules", "the CA of CloudStack's certificate"),
	need("get create update", "configmaps", Release, "install uninstall rotate-keys", "what was made in CloudStack; its certificate's CA"),
	need("delete", "configmaps", Release, "uninstall install",
		"both of these, if `--delete-secret` or `--delete-user` is given, or CloudStack has refused to make anything").sometimes(),
	need("create get delete", "pods", Release, "install", "the controller's self-test"),
	need("create get delete", "pods", Release, "doctor",
		"reads the kubelet's command line on its node, if `--probe-pod` is given").sometimes(),

	// Replacing another provider.
	need("patch", "deployments.apps daemonsets.apps", System, "takeover", "stops the other provider"),
	need("delete", "deployments.apps daemonsets.apps", Release, "takeover", "ends csccm's controller, if `--undo` is given").sometimes(),
	need("list", "pods", Release, "takeover", "whether the controller's Pods have ended, if `--undo` is given").sometimes(),
	need("create update", "leases.coordination.k8s.io", System, "takeover", "holds the lease between the two controllers"),
	need("get", "services", Everywhere, "takeover migrate-rules", "annotations that an earlier run has written"),
	need("patch", "services", Everywhere, "takeover migrate-rules", "annotations that keep settings (`--pin`) and the previous state (`--undo`)"),

	// Shell completion.
	need("list", "namespaces services nodes", Everywhere, "completion", "names to choose from").optional(),
}

// chartRights returns the rights on the chart's kinds of objects.
func chartRights() []Right {
	var out []Right
	for _, k := range []struct {
		resource string
		place    Place
		with     string // the chart value that makes it; "" means always
	}{
		{"serviceaccounts deployments.apps poddisruptionbudgets.policy", Release, ""},
		{"clusterroles.rbac.authorization.k8s.io clusterrolebindings.rbac.authorization.k8s.io", Everywhere, ""},
		{"roles.rbac.authorization.k8s.io rolebindings.rbac.authorization.k8s.io", System, ""},
		{"roles.rbac.authorization.k8s.io rolebindings.rbac.authorization.k8s.io", Heartbeats, ""},
		{policies, Everywhere, ""},
		{"daemonsets.apps", Release, "kind"},
		{"services servicemonitors.monitoring.coreos.com", Release, "serviceMonitor.enabled"},
		{"configmaps", Release, "grafanaDashboard.enabled"},
		{"prometheusrules.monitoring.coreos.com", Release, "prometheusRule.enabled"},
	} {
		for _, r := range []Right{
			need("get create patch", k.resource, k.place, releasing, "objects of the chart; `patch` also for dry runs"),
			need("get delete", k.resource, k.place, "upgrade rollback uninstall", "objects of the chart"),
			need("get patch", k.resource, k.place, diagnosing, "check HELM-003: whether objects differ from the release (dry run)").optional(),
		} {
			r.Chart, r.Sometimes = true, k.with != ""
			out = append(out, r)
		}
	}
	return out
}
