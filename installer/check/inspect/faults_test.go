// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kversion "k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// fault is something wrong with a cluster, and the code that must find it.
type fault struct {
	code    string
	outcome check.Outcome
	says    string // part of message or objects
	inject  func(t *testing.T, w *world)
	// preflight: found before an installation rather than after it.
	preflight bool
	// together: may stand beside all others that have it; those without hide others.
	together bool
}

func (f fault) name() string { return f.code + " " + string(f.outcome) + " " + f.says }

func (w *world) changeNode(t *testing.T, name string, change func(n *corev1.Node)) {
	t.Helper()
	n, err := w.kube.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	change(n)
	// Not an update: it would write managedFields with the time of the test.
	require.NoError(t, w.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", name))
	w.add(t, n)
}

func (w *world) add(t *testing.T, o runtime.Object) {
	t.Helper()
	require.NoError(t, w.kube.Tracker().Add(o))
}

func (w *world) client(t *testing.T, change func(c *cloudstack.Config)) {
	t.Helper()
	cfg := *w.env.CloudConfig
	change(&cfg)
	client, err := cloudapi.NewClient(&cfg)
	require.NoError(t, err)
	w.env.CloudStack, w.env.CloudConfig = client, &cfg
}

func tainted(effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: effect}}
	}
}

// lost is a node without a VM.
func (w *world) lost(t *testing.T) {
	t.Helper()
	if _, err := w.kube.CoreV1().Nodes().Get(t.Context(), "lost", metav1.GetOptions{}); err == nil {
		return
	}
	w.add(t, w.node("lost", "10.9.9.9"))
}

// lean is a CloudStack whose networks balance no load, and whose role lacks a command.
func lean(_ *testing.T, w *world) {
	w.edit = func(q url.Values, body string) string {
		switch q.Get("command") {
		case "listNetworks":
			return strings.ReplaceAll(body, `"name":"Lb"`, `"name":"NoLb"`)
		case "listApis":
			return strings.ReplaceAll(body, `"name":"createFirewallRule"`, `"name":"noFirewallRule"`)
		}
		return body
	}
}

// deny has the API server say no about some of the caller's rights.
func (w *world) deny(which func(*authorizationv1.ResourceAttributes) bool) {
	w.kube.PrependReactor("create", "selfsubjectaccessreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
		review := a.(ktesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		review.Status.Allowed = !which(review.Spec.ResourceAttributes)
		return true, review, nil
	})
}

func faults() []fault {
	return append(slices.Concat(tenancyFaults(), cksFaults(), storageFaults()), []fault{
		{code: "K8S-001", outcome: check.Failed, says: "refused", inject: func(_ *testing.T, w *world) {
			w.kube.PrependReactor("get", "version", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("refused") })
		}},
		{code: "K8S-002", outcome: check.Failed, says: "too old", inject: func(_ *testing.T, w *world) {
			w.kube.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &kversion.Info{GitVersion: "v1.20.0"}
		}},
		{code: "K8S-003", outcome: check.Failed, says: "patch nodes", preflight: true, inject: func(_ *testing.T, w *world) {
			w.deny(func(a *authorizationv1.ResourceAttributes) bool { return a.Verb == "patch" })
		}},
		{code: "K8S-003", outcome: check.Failed, says: "update leases.coordination.k8s.io in kube-system", preflight: true, inject: func(_ *testing.T, w *world) {
			w.env.Replaces = []check.Object{{Kind: "Deployment", Namespace: system, Name: "cloud-controller-manager"}}
			w.deny(func(a *authorizationv1.ResourceAttributes) bool {
				return a.Verb == "update" && a.Resource == "leases"
			})
		}},
		{code: "K8S-003", outcome: check.Failed, says: "create daemonsets.apps in kube-system", preflight: true, inject: func(_ *testing.T, w *world) {
			w.env.Manifest = chartObjects + "---\napiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: cloudstack-ccm}\n"
			w.deny(func(a *authorizationv1.ResourceAttributes) bool {
				return a.Verb == "create" && a.Resource == "daemonsets"
			})
		}},
		{code: "K8S-003", outcome: check.Warning, says: "get nodes/proxy", preflight: true, inject: func(_ *testing.T, w *world) {
			w.deny(func(a *authorizationv1.ResourceAttributes) bool { return a.Subresource == "proxy" })
		}},
		{code: "K8S-003", outcome: check.Failed, says: "no-new-roles", preflight: true, inject: func(_ *testing.T, w *world) {
			w.env.Manifest = chartObjects
			w.objects.change("/apis/rbac.authorization.k8s.io/v1/clusterroles/cloudstack-ccm", nil)
			w.objects.refuse = `admission webhook "no-new-roles.example.org" denied the request`
		}},
		{code: "K8S-004", outcome: check.Warning, says: "1h0m0s in the future", together: true, inject: func(t *testing.T, w *world) {
			w.changeNode(t, "demo-cp-1", func(n *corev1.Node) {
				n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(w.now.Add(time.Hour))
			})
		}},
		{code: "K8S-004", outcome: check.Warning, says: "its clock and this machine's differ by", inject: func(_ *testing.T, w *world) { w.behind = 30 * time.Minute }},
		{code: "K8S-005", outcome: check.Failed, says: "restricted", together: true, inject: func(t *testing.T, w *world) {
			ns, err := w.kube.CoreV1().Namespaces().Get(t.Context(), system, metav1.GetOptions{})
			require.NoError(t, err)
			ns.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
			_, err = w.kube.CoreV1().Namespaces().Update(t.Context(), ns, metav1.UpdateOptions{})
			require.NoError(t, err)
		}},
		{code: "K8S-006", outcome: check.Warning, says: "v1.30.0", together: true, inject: func(t *testing.T, w *world) {
			w.changeNode(t, "demo-worker-2", func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.30.0" })
		}},
		{code: "HELM-001", outcome: check.Failed, says: "pending-upgrade", together: true, inject: func(t *testing.T, w *world) {
			w.add(t, revision(t, 9, "pending-upgrade", chartObjects, nil))
		}},
		{code: "HELM-002", outcome: check.Failed, says: `is of Helm release ""`, preflight: true, inject: func(_ *testing.T, w *world) { w.env.Manifest = chartObjects }},
		{code: "HELM-003", outcome: check.Warning, says: "not in the cluster", inject: func(_ *testing.T, w *world) {
			w.objects.change("/api/v1/namespaces/kube-system/serviceaccounts/cloudstack-ccm", nil)
		}},
		{code: "HELM-003", outcome: check.Warning, says: `the release would change - rules[0].verbs: "*"; + rules[0].verbs: "get"`, together: true, inject: func(_ *testing.T, w *world) {
			w.objects.change("/apis/rbac.authorization.k8s.io/v1/clusterroles/cloudstack-ccm", func(o map[string]any) {
				o["rules"] = []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"nodes"}, "verbs": []any{"*"}}}
			})
		}},
		{code: "HELM-004", outcome: check.Failed, says: "holds credentials", together: true, inject: func(t *testing.T, w *world) {
			w.add(t, revision(t, 0, "superseded", chartObjects, map[string]any{"cloudConfig": w.env.CloudConfig.SecretKey}))
		}},
		{code: "CS-001", outcome: check.Failed, says: "127.0.0.1:1", inject: func(t *testing.T, w *world) {
			w.client(t, func(c *cloudstack.Config) { c.APIURL = "http://127.0.0.1:1/client/api" })
		}},
		{code: "CS-002", outcome: check.Failed, says: "401", inject: func(t *testing.T, w *world) { w.client(t, func(c *cloudstack.Config) { c.SecretKey = "wrong" }) }},
		{code: "CS-002", outcome: check.Warning, says: "administrator", inject: func(t *testing.T, w *world) {
			w.client(t, func(c *cloudstack.Config) { c.APIKey, c.SecretKey, _ = w.sim.Keys("admin") })
		}},
		{code: "CS-003", outcome: check.Failed, says: "the role refuses createFirewallRule", together: true, inject: lean},
		{code: "CS-004", outcome: check.Failed, says: "mars", inject: func(t *testing.T, w *world) { w.client(t, func(c *cloudstack.Config) { c.Zone = "mars" }) }},
		{code: "CS-004", outcome: check.Failed, says: "none", inject: func(t *testing.T, w *world) { w.client(t, func(c *cloudstack.Config) { c.ProjectID = "none" }) }},
		{code: "CS-005", outcome: check.Warning, says: "lacks Lb", together: true, inject: lean},
		{code: "CS-006", outcome: check.Failed, says: "no such host", together: true, inject: func(_ *testing.T, w *world) {
			w.log += w.logLine('E', time.Minute, "contact.go:38", `"CloudStack cannot be used" err="cloudstack listVirtualMachines: cannot reach the API: dial tcp: lookup cs.example.org: no such host" remedy="check api-url"`)
		}},
		{code: "NODE-001", outcome: check.Warning, says: "demo-worker-2", together: true, inject: func(_ *testing.T, w *world) {
			w.kubelet = func(n string) string { return map[bool]string{false: "external"}[n == "demo-worker-2"] }
		}},
		{code: "NODE-002", outcome: check.Failed, says: "Node lost: has no VM", together: true, inject: func(t *testing.T, w *world) { w.lost(t) }},
		{code: "NODE-003", outcome: check.Failed, says: "names no VM", together: true, inject: func(t *testing.T, w *world) {
			w.lost(t)
			w.changeNode(t, "lost", func(n *corev1.Node) { n.Spec.ProviderID = "cloudstack:///99999999-0000-4000-8000-000000000000" })
		}},
		{code: "NODE-004", outcome: check.Failed, says: "--node-ip 10.99.0.1 is on no NIC", together: true, inject: func(t *testing.T, w *world) {
			w.changeNode(t, "demo-worker-1", func(n *corev1.Node) {
				tainted(corev1.TaintEffectNoSchedule)(n)
				n.Annotations["alpha.kubernetes.io/provided-node-ip"] = "10.99.0.1"
			})
		}},
		{code: "NODE-005", outcome: check.Failed, says: "NoExecute", together: true, inject: func(t *testing.T, w *world) {
			w.lost(t)
			w.changeNode(t, "lost", tainted(corev1.TaintEffectNoExecute))
		}},
		{code: "NODE-006", outcome: check.Failed, says: "its kubelet writes InternalIP 192.168.0.7", together: true, inject: func(t *testing.T, w *world) {
			w.changeNode(t, "demo-worker-2", func(n *corev1.Node) {
				n.Status.Addresses[0].Address = "192.168.0.7"
				at := metav1.NewTime(w.now.Add(-5 * time.Second))
				n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", Operation: "Update", Time: &at, FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:addresses":{}}}`)}}
			})
		}},
		{code: "NODE-007", outcome: check.Warning, says: "zone is mars, CloudStack says zone-1", inject: func(t *testing.T, w *world) {
			w.changeNode(t, "demo-worker-2", func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = "mars" })
		}},
		{code: "NODE-007", outcome: check.Warning, says: "PersistentVolume data-0: wants topology.kubernetes.io/zone old-zone; by CloudStack's data no node has it", together: true, inject: func(t *testing.T, w *world) {
			v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "data-0"}}
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "data"}
			v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"old-zone"}}},
			}}}}
			w.add(t, v)
		}},
		{code: "NODE-008", outcome: check.Failed, says: "is NotReady", together: true, inject: func(t *testing.T, w *world) {
			w.lost(t)
			w.changeNode(t, "lost", func(n *corev1.Node) {
				n.Spec.ProviderID, n.Status.Conditions[0].Status = "cloudstack:///99999999-0000-4000-8000-000000000000", corev1.ConditionUnknown
			})
		}},
		{code: "CCM-001", outcome: check.Failed, says: "no Deployment", inject: func(t *testing.T, w *world) {
			require.NoError(t, w.kube.AppsV1().Deployments(system).Delete(t.Context(), "cloudstack-cloud-controller-manager", metav1.DeleteOptions{}))
		}},
		{code: "CCM-001", outcome: check.Warning, says: "runs image registry.example.org/cloudstack-ccm:v0.9.0", together: true, inject: func(t *testing.T, w *world) {
			p, err := w.kube.CoreV1().Pods(system).Get(t.Context(), "cloud-controller-manager-1", metav1.GetOptions{})
			require.NoError(t, err)
			p.Spec.Containers[0].Image = "registry.example.org/cloudstack-ccm:v0.9.0"
			_, err = w.kube.CoreV1().Pods(system).Update(t.Context(), p, metav1.UpdateOptions{})
			require.NoError(t, err)
		}},
		{code: "CCM-002", outcome: check.Failed, says: "nobody holds", inject: func(t *testing.T, w *world) {
			require.NoError(t, w.kube.CoordinationV1().Leases(system).Delete(t.Context(), "cloud-controller-manager", metav1.DeleteOptions{}))
		}},
		{code: "CCM-002", outcome: check.Failed, says: "2 cloud controller managers lead at once", together: true, inject: func(t *testing.T, w *world) {
			l := w.controller()[2].(*coordinationv1.Lease)
			l.Name = "leaseweb-cloud-controller-manager"
			w.add(t, l)
		}},
		{code: "CCM-003", outcome: check.Failed, says: "apache/cloudstack-kubernetes-provider", together: true, inject: func(t *testing.T, w *world) {
			d := w.controller()[0].(*appsv1.Deployment)
			d.Name, d.Labels = "cloud-controller-manager", nil
			d.Spec.Template.Spec.Containers[0].Image = "apache/cloudstack-kubernetes-provider:v1.2.0"
			w.add(t, d)
		}},
		{code: "CCM-003", outcome: check.Failed, says: "static Pod", inject: func(t *testing.T, w *world) {
			p := w.controller()[1].(*corev1.Pod)
			p.Name, p.Labels, p.OwnerReferences = "openstack-cloud-controller-manager-cp-1", nil, []metav1.OwnerReference{{Kind: "Node"}}
			w.add(t, p)
		}},
		{code: "CCM-004", outcome: check.Warning, says: "leaderElection", together: true, inject: func(_ *testing.T, w *world) {
			w.health = errors.New("an error on the server (\"[-]leaderElection failed\\nhealthz check failed\") has prevented the request from succeeding")
		}},
		{code: "CCM-005", outcome: check.Warning, says: "SyncLoadBalancerFailed", together: true, inject: func(t *testing.T, w *world) {
			w.add(t, &corev1.Event{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"}, Type: "Warning", Reason: "SyncLoadBalancerFailed", Message: "no free address",
				LastTimestamp: metav1.NewTime(w.now.Add(-time.Minute)), Source: corev1.EventSource{Component: "service-controller"},
				InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: "default", Name: "web"},
			})
		}},
		{code: "CCM-006", outcome: check.Warning, says: "runs on node demo-cp-1, which is no control plane node", together: true, inject: func(t *testing.T, w *world) {
			w.changeNode(t, "demo-worker-1", func(n *corev1.Node) { n.Labels["node-role.kubernetes.io/control-plane"] = "" })
		}},
		{code: "NODE-009", outcome: check.Warning, says: "its VM demo-worker-2 is Stopped", inject: func(t *testing.T, w *world) {
			client, err := cloudapi.NewClient(w.env.CloudConfig)
			require.NoError(t, err)
			vms, err := client.ListVirtualMachines(t.Context(), cloudstack.VMQuery{Name: "demo-worker-2"})
			require.NoError(t, err)
			w.order(t, "stopVirtualMachine", url.Values{"id": {vms[0].ID}})
		}},
		{code: "CKS-001", outcome: check.Warning, says: "c-node-19a2b3c4d5f", inject: func(t *testing.T, w *world) {
			w.add(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "kubeadm-config"}})
			w.add(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "cloudstack-secret"}})
			d := w.controller()[0].(*appsv1.Deployment)
			d.Name, d.Labels = "cloud-controller-manager", nil
			w.add(t, d)
			for _, n := range []string{"demo-cp-1", "demo-worker-1", "demo-worker-2"} {
				require.NoError(t, w.kube.CoreV1().Nodes().Delete(t.Context(), n, metav1.DeleteOptions{}))
			}
			w.add(t, w.node("c-control-19a2b3c4d5e", "10.1.1.11"))
			w.add(t, w.node("c-node-19a2b3c4d5f", "10.1.1.12"))
			w.kubelet = func(string) string { return "" }
		}},
		{code: "LB-001", outcome: check.Failed, says: "would remove 1 member from the rule of port 80", inject: func(t *testing.T, w *world) {
			w.changeNode(t, "demo-worker-1", func(n *corev1.Node) { n.Labels[corev1.LabelNodeExcludeBalancers] = "true" })
		}},
		{code: "LB-002", outcome: check.Warning, says: "Service default/web", together: true, inject: func(t *testing.T, w *world) {
			w.renameRule(t, "-tcp-443", "-443")
		}},
		{code: "LB-003", outcome: check.Warning, says: "all its members are nodes", inject: func(t *testing.T, w *world) {
			require.NoError(t, w.kube.CoreV1().Services("default").Delete(t.Context(), "web", metav1.DeleteOptions{}))
		}},
		{code: "LB-001", outcome: check.Failed, says: "would forward port 80/tcp", inject: func(t *testing.T, w *world) {
			w.changeService(t, func(s *corev1.Service) { s.Annotations[annotation.Mode] = annotation.Direct })
		}},
		{code: "LB-002", outcome: check.Failed, says: "2 rules too many for a port", inject: func(t *testing.T, w *world) { w.renameRule(t, "-tcp-443", "-tcp-80") }},
	}...)
}

// order has CloudStack do what an administrator asks for, and waits until it is done.
func (w *world) order(t *testing.T, command string, params url.Values) {
	t.Helper()
	call := func(command string, params url.Values) string {
		params.Set("command", command)
		params.Set("response", "json")
		out := httptest.NewRecorder()
		w.sim.IntegrationHandler().ServeHTTP(out, httptest.NewRequest(http.MethodGet, "/client/api?"+params.Encode(), nil))
		require.Equal(t, http.StatusOK, out.Code, out.Body)
		return out.Body.String()
	}
	var submitted map[string]struct {
		JobID string `json:"jobid"`
	}
	require.NoError(t, json.Unmarshal([]byte(call(command, params)), &submitted))
	for _, s := range submitted {
		require.Eventually(t, func() bool {
			return strings.Contains(call("queryAsyncJobResult", url.Values{"jobid": {s.JobID}}), `"jobstatus":1`)
		}, time.Minute, time.Millisecond)
	}
}

// renameRule changes the name of the rules that hold a part.
func (w *world) renameRule(t *testing.T, part, by string) {
	t.Helper()
	client, err := cloudapi.NewClient(w.env.CloudConfig)
	require.NoError(t, err)
	rules, err := client.ListLoadBalancerRules(t.Context(), cloudstack.LoadBalancerRuleQuery{})
	require.NoError(t, err)
	for _, r := range rules {
		if strings.Contains(r.Name, part) {
			rename(t, client, r, strings.Replace(r.Name, part, by, 1))
		}
	}
}

// admissionObjects are the chart's admission policies with their bindings.
func admissionObjects() []runtime.Object {
	var out []runtime.Object
	fail := admissionv1.Fail
	for _, end := range []string{"annotations", "records", "tenancy"} {
		meta := metav1.ObjectMeta{Name: release + "-" + end, Labels: map[string]string{"app.kubernetes.io/name": "cloudstack-ccm", "app.kubernetes.io/instance": release}}
		p := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: meta}
		p.Spec.FailurePolicy = &fail
		b := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta}
		b.Spec.PolicyName, b.Spec.ValidationActions = meta.Name, []admissionv1.ValidationAction{admissionv1.Deny}
		out = append(out, p, b)
	}
	return out
}

func (w *world) changeService(t *testing.T, change func(s *corev1.Service)) {
	t.Helper()
	s, err := w.kube.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	change(s)
	_, err = w.kube.CoreV1().Services("default").Update(t.Context(), s, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// tenancyFaults are those of what crosses the border of a namespace or the network.
func tenancyFaults() []fault {
	return []fault{
		{code: "CS-007", outcome: check.Warning, says: "http://cloud.example.org/client/api is asked without TLS", inject: func(_ *testing.T, w *world) {
			cfg := *w.env.CloudConfig
			cfg.APIURL = "http://cloud.example.org/client/api"
			w.env.CloudConfig = &cfg
		}},
		{code: "CS-007", outcome: check.Warning, says: "any certificate is trusted", together: true, inject: func(_ *testing.T, w *world) {
			cfg := *w.env.CloudConfig
			cfg.SSLNoVerify = true
			w.env.CloudConfig = &cfg
		}},
		{code: "TEN-001", outcome: check.Warning, says: "ValidatingAdmissionPolicy *-records: not in the cluster", inject: func(t *testing.T, w *world) {
			require.NoError(t, w.kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().Delete(t.Context(), release+"-records", metav1.DeleteOptions{}))
		}},
		{code: "TEN-001", outcome: check.Warning, says: "failurePolicy is Ignore", together: true, inject: func(t *testing.T, w *world) {
			api := w.kube.AdmissionregistrationV1().ValidatingAdmissionPolicies()
			p, err := api.Get(t.Context(), release+"-annotations", metav1.GetOptions{})
			require.NoError(t, err)
			ignore := admissionv1.Ignore
			p.Spec.FailurePolicy = &ignore
			_, err = api.Update(t.Context(), p, metav1.UpdateOptions{})
			require.NoError(t, err)
		}},
		{code: "TEN-002", outcome: check.Warning, says: "Service default/web", together: true, inject: func(t *testing.T, w *world) {
			w.changeService(t, func(s *corev1.Service) { s.Annotations[annotation.Network] = "another" })
		}},
		{code: "TEN-003", outcome: check.Warning, says: "Service default/web has it and does not share it with guest/shop", inject: func(t *testing.T, w *world) {
			s, err := w.kube.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
			require.NoError(t, err)
			s.Namespace, s.Name, s.UID, s.CreationTimestamp = "guest", "shop", "another", metav1.NewTime(w.now)
			s.Spec.Ports = []corev1.ServicePort{{Port: 8080, NodePort: 30081}}
			w.add(t, s)
		}},
		{code: "TEN-004", outcome: check.Warning, says: "says that 203.0.113.20 was acquired for it; CloudStack's tags name nobody", together: true, inject: func(t *testing.T, w *world) {
			client, err := cloudapi.NewClient(w.env.CloudConfig)
			require.NoError(t, err)
			addresses, err := client.ListPublicIPs(t.Context(), cloudstack.PublicIPQuery{})
			require.NoError(t, err)
			for _, a := range addresses {
				if a.Address == "203.0.113.20" {
					w.changeService(t, func(s *corev1.Service) {
						s.Annotations[annotation.Addresses] = fmt.Sprintf(`[{"id":%q,"ip":%q,"allocated":true}]`, a.ID, a.Address)
					})
				}
			}
		}},
	}
}
