// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kversion "k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/rest"
	ktesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/inspect"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/testenv/fakekube"
)

const (
	system  = "kube-system"
	release = "cloudstack-ccm"
	// chartObjects is the manifest of the release.
	chartObjects = `---
apiVersion: v1
kind: ServiceAccount
metadata: {name: cloudstack-ccm, labels: {app.kubernetes.io/name: cloudstack-ccm}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: cloudstack-ccm}
rules: [{apiGroups: [""], resources: [nodes], verbs: [get, list]}]
`
)

// world is a cluster in a fake clientset with a simulated CloudStack below it.
type world struct {
	sim     *simulator.Simulator
	kube    *fakekube.Clientset
	env     *inspect.Env
	now     time.Time
	objects *objectServer
	kubelet func(node string) string               // its --cloud-provider
	log     string                                 // of the controller
	health  error                                  // of its Pods' /healthz
	edit    func(q url.Values, body string) string // changes what CloudStack answers; nil for nothing
	behind  time.Duration                          // CloudStack's clock
}

// cloud is the simulated CloudStack with its edit.
func (w *world) cloud(rw http.ResponseWriter, r *http.Request) {
	form, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(form))
	q, _ := url.ParseQuery(cmp.Or(string(form), r.URL.RawQuery))
	r.Header.Del("Accept-Encoding") // no gzip
	answer := httptest.NewRecorder()
	w.sim.Handler().ServeHTTP(answer, r)
	body := answer.Body.String()
	maps.Copy(rw.Header(), answer.Header())
	rw.Header().Del("Content-Length")
	rw.Header().Set("Date", time.Now().Add(-w.behind).UTC().Format(http.TimeFormat))
	if w.edit != nil {
		body = w.edit(q, body)
	}
	if body == answer.Body.String() {
		rw.WriteHeader(answer.Code)
	}
	_, _ = io.WriteString(rw, body)
}

// exitCode is that of a process that shows the report.
func exitCode(r check.Report, failOn check.Severity) int {
	if e, is := errors.AsType[*report.Error](r.Err(failOn)); is {
		return e.Code
	}
	return 0
}

func (w *world) node(name, ip string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(w.now.Add(-time.Hour)), Annotations: map[string]string{}, Labels: map[string]string{}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(w.now)}}
	n.Status.NodeInfo.KubeletVersion, n.Status.NodeInfo.OperatingSystem = "v1.37.1", "linux"
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}
	return n
}

// controller is the release's Deployment with one ready Pod, and its lease.
func (w *world) controller() []runtime.Object {
	labels := map[string]string{"app.kubernetes.io/name": "cloudstack-ccm", "app.kubernetes.io/instance": release}
	const image = "registry.example.org/cloudstack-ccm:v1.0.0"
	one, seconds, holder, renewed := int32(1), int32(15), "cloud-controller-manager-1_x", metav1.NewMicroTime(w.now.Add(-2*time.Second))
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "cloudstack-cloud-controller-manager", Labels: labels}}
	d.Spec.Replicas, d.Spec.Selector, d.Status.ReadyReplicas = &one, &metav1.LabelSelector{MatchLabels: labels}, 1
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "cloudstack-ccm", Image: image}}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "cloud-controller-manager-1", Labels: labels, OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet"}}}}
	p.Spec.NodeName = "demo-cp-1"
	p.Spec.Containers = []corev1.Container{{Name: "cloudstack-ccm", Image: image, Ports: []corev1.ContainerPort{{Name: "https", ContainerPort: 10258}}}}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "cloud-controller-manager"}}
	l.Spec.HolderIdentity, l.Spec.RenewTime, l.Spec.LeaseDurationSeconds = &holder, &renewed, &seconds
	return []runtime.Object{d, p, l}
}

// newWorld is the example world with its nodes initialised and the old rules renamed.
func newWorld(t *testing.T) *world { t.Helper(); return newWorldOf(t, "") }

// newWorldOf is newWorld with a CloudStack of a release. Its time stands still: what was renewed just now stays fresh,
// however long a run takes.
func newWorldOf(t *testing.T, version string) *world {
	t.Helper()
	return newWorldWith(t, func(w *simulator.World) { w.Version = version })
}

// newWorldWith is newWorld with a changed CloudStack.
func newWorldWith(t *testing.T, change func(*simulator.World)) *world {
	t.Helper()
	w := &world{now: fixed, kubelet: func(string) string { return "external" }}
	w.log = w.logLine('I', 30*time.Minute, "contact.go:32", `"CloudStack can be used" scope="3 VMs"`)
	var err error
	example := simulator.ExampleWorld()
	withCKS(example)
	change(example)
	w.sim, err = simulator.New(simulator.Options{World: example})
	require.NoError(t, err)
	t.Cleanup(w.sim.Close)
	cs := httptest.NewServer(http.HandlerFunc(w.cloud))
	t.Cleanup(cs.Close)
	apiKey, secretKey, known := w.sim.Keys("k8s-owner")
	require.True(t, known)
	cfg := &cloudstack.Config{APIURL: cs.URL + "/client/api", APIKey: apiKey, SecretKey: secretKey, Zone: "zone-1"}
	client, err := cloudapi.NewClient(cfg)
	require.NoError(t, err)

	rules, err := client.ListLoadBalancerRules(t.Context(), cloudstack.LoadBalancerRuleQuery{})
	require.NoError(t, err)
	for _, r := range rules {
		if !strings.Contains(r.Name, "-tcp-") {
			rename(t, client, r, strings.Replace(r.Name, "-", "-tcp-", 1))
		}
	}
	vms, err := client.ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
	require.NoError(t, err)

	objects := append(w.controller(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system, UID: "5ca1ab1e-0000-4000-8000-000000000001"}})
	objects = append(objects, admissionObjects()...)
	for _, vm := range vms {
		n := w.node(vm.Name, vm.NICs[0].IPv4)
		n.Spec.ProviderID = "external-cloudstack://" + vm.ID
		n.Labels[corev1.LabelTopologyZone], n.Labels[corev1.LabelTopologyRegion] = vm.ZoneName, vm.ZoneName
		if vm.Name == "demo-cp-1" {
			n.Labels[corev1.LabelNodeExcludeBalancers] = ""
		}
		objects = append(objects, n)
	}
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "01234567-89ab-cdef-0123-456789abcdef", CreationTimestamp: metav1.NewTime(w.now.Add(-time.Hour))}}
	svc.Spec.Type = corev1.ServiceTypeLoadBalancer
	svc.Spec.Ports = []corev1.ServicePort{{Port: 80, NodePort: 30080}, {Port: 443, NodePort: 30443}}
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.20"}}
	w.kube = fakekube.New(append(objects, svc, revision(t, 1, "deployed", chartObjects, nil))...)
	w.kube.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &kversion.Info{GitVersion: "v1.37.1"}
	w.kube.PrependReactor("create", "selfsubjectaccessreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
		review := a.(ktesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		review.Status.Allowed = true
		return true, review, nil
	})
	w.kube.PrependReactor("get", "pods/log", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, &runtime.Unknown{Raw: []byte(w.log)}, nil
	})
	w.kube.AddProxyReactor("pods", func(a ktesting.Action) (bool, rest.ResponseWrapper, error) {
		if a.(ktesting.ProxyGetAction).GetPath() == "healthz" {
			return true, answer{w.health}, nil
		}
		return true, answer{errors.New("Unauthorized")}, nil
	})

	w.objects = newObjectServer(t, chartObjects)
	api := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/proxy/flagz") {
			w.objects.ServeHTTP(rw, r)
			return
		}
		node := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/api/v1/nodes/"), "/proxy/flagz")
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(map[string]any{"kind": "Flagz", "apiVersion": "config.k8s.io/v1beta1", "flags": map[string]string{"cloud-provider": w.kubelet(node)}})
	}))
	t.Cleanup(api.Close)
	w.env = &inspect.Env{
		Cluster: cluster.NewForTest(w.kube, &rest.Config{Host: api.URL}), CloudStack: client, CloudConfig: cfg,
		Setup: check.Setup{Namespace: system, Release: release}, Clock: clocktesting.NewFakeClock(w.now), DialAPI: nobody,
	}
	return w
}

// logLine is one of klog's, so long ago.
func (w *world) logLine(level byte, ago time.Duration, source, text string) string {
	return fmt.Sprintf("%c%s       1 %s] %s\n", level, w.now.Add(-ago).UTC().Format("0102 15:04:05.000000"), source, text)
}

func rename(t *testing.T, client *cloudapi.Client, r cloudstack.LoadBalancerRule, name string) {
	t.Helper()
	s, err := client.UpdateLoadBalancerRule(t.Context(), cloudstack.UpdateLoadBalancerRuleRequest{ID: r.ID, Protocol: "tcp", Algorithm: r.Algorithm, Name: name})
	require.NoError(t, err)
	_, err = client.Jobs().Wait(t.Context(), "updateLoadBalancerRule", s.JobID)
	require.NoError(t, err)
}

// revision is a Secret as Helm writes it.
func revision(t *testing.T, n int, status, manifest string, values map[string]any) *corev1.Secret {
	t.Helper()
	raw, err := json.Marshal(map[string]any{
		"name": release, "version": n, "manifest": manifest, "config": values, "info": map[string]any{"status": status},
		"chart": map[string]any{"metadata": map[string]any{"name": release, "version": "1.0.0", "appVersion": "v1.0.0"}},
	})
	require.NoError(t, err)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err = z.Write(raw)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: fmt.Sprintf("sh.helm.release.v1.%s.v%d", release, n), Labels: map[string]string{
			"owner": "helm", "name": release, "status": status, "version": fmt.Sprint(n),
		}},
		Type: "helm.sh/release.v1", Data: map[string][]byte{"release": []byte(base64.StdEncoding.EncodeToString(b.Bytes()))},
	}
}

// answer is what a Pod says through the API server.
type answer struct{ err error }

func (a answer) DoRaw(context.Context) ([]byte, error) { return []byte("ok"), a.err }

func (a answer) Stream(context.Context) (io.ReadCloser, error) { return nil, errors.New("no stream") }

// objectServer is as much of an API server as reading and dry-run applying objects needs.
type objectServer struct {
	mu      sync.Mutex
	objects map[string]map[string]any // by path
	refuse  string                    // reason for which nothing is taken
}

func newObjectServer(t *testing.T, manifest string) *objectServer {
	t.Helper()
	s := &objectServer{objects: map[string]map[string]any{}}
	for _, doc := range strings.Split(manifest, "---\n") {
		var o map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(doc), &o))
		switch o["kind"] {
		case "ServiceAccount":
			s.objects["/api/v1/namespaces/kube-system/serviceaccounts/cloudstack-ccm"] = o
		case "ClusterRole":
			s.objects["/apis/rbac.authorization.k8s.io/v1/clusterroles/cloudstack-ccm"] = o
		}
	}
	return s
}

func (s *objectServer) change(path string, change func(o map[string]any)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if change == nil {
		delete(s.objects, path)
		return
	}
	change(s.objects[path])
}

func (s *objectServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	fail := func(code int, reason metav1.StatusReason, message string) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: reason, Message: message, Code: int32(code)})
	}
	live, found := s.objects[r.URL.Path]
	switch {
	case r.Method != http.MethodGet && r.URL.Query().Get("dryRun") == "All":
		if s.refuse != "" {
			fail(http.StatusForbidden, metav1.StatusReasonForbidden, s.refuse)
			return
		}
		var applied map[string]any
		if err := json.NewDecoder(r.Body).Decode(&applied); err != nil {
			fail(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
			return
		}
		_ = json.NewEncoder(w).Encode(merged(live, applied))
	case r.Method != http.MethodGet:
		fail(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "checks change nothing")
	case !found:
		fail(http.StatusNotFound, metav1.StatusReasonNotFound, "not found")
	default:
		_ = json.NewEncoder(w).Encode(live)
	}
}

// merged is live with applied over it, as far as maps go.
func merged(live, applied map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range live {
		out[k] = v
	}
	for k, v := range applied {
		a, aMap := out[k].(map[string]any)
		b, bMap := v.(map[string]any)
		if aMap && bMap {
			out[k] = merged(a, b)
		} else {
			out[k] = v
		}
	}
	return out
}
