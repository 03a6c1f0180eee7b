// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart"
	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kversion "k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ktesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/inspect"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/installer/testenv/fakecluster"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/provider"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/testenv/fakekube"
)

const (
	system  = testenv.Namespace
	release = cluster.DefaultRelease
	// thisCluster is the UID of kube-system.
	thisCluster = "5ca1ab1e-0000-4000-8000-000000000001"
	webUID      = "01234567-89ab-cdef-0123-456789abcdef"
	// roleOfChart and accountOfChart are the manifest of the release.
	roleOfChart = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: cloudstack-ccm}
rules: [{apiGroups: [""], resources: [nodes], verbs: [get, list]}]
`
	accountOfChart = `apiVersion: v1
kind: ServiceAccount
metadata: {name: cloudstack-ccm, labels: {app.kubernetes.io/name: cloudstack-ccm}}
`
	workloadOfChart = `apiVersion: apps/v1
kind: Deployment
metadata: {name: cloud-controller-manager, namespace: kube-system}
spec: {template: {spec: {
hostNetwork: true}}}
`
	chartObjects = accountOfChart + "---\n" + roleOfChart + "---\n" + workloadOfChart
	rolePath     = "/apis/rbac.authorization.k8s.io/v1/clusterroles/cloudstack-ccm"
	workloadPath = "/apis/apps/v1/namespaces/kube-system/deployments/cloud-controller-manager"
	accountPath  = "/api/v1/namespaces/kube-system/serviceaccounts/cloudstack-ccm"
)

// fixed is the time of the cluster. It stands still, so that leases stay fresh however long a run takes.
var fixed = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)

// world is a cluster in a fake clientset with a simulated CloudStack below it.
type world struct {
	*testenv.Cloud
	kube    *fakekube.Clientset
	env     *inspect.Env
	objects map[string]map[string]any // objects of the chart, by path
	kubelet func(node string) string  // the node's --cloud-provider
	log     string                    // log of the controller
	health  error                     // result of its Pods' /healthz
	waits   []string                  // keys of the cloud-config that its Pods have not taken over
	edit    *strings.Replacer         // edits CloudStack's answers
	behind  time.Duration             // how far CloudStack's clock is behind
}

// cloud wraps the simulated CloudStack and edits its answers.
func (w *world) cloud(rw http.ResponseWriter, r *http.Request) {
	r.Header.Del("Accept-Encoding") // ask for an answer without gzip, because edit changes its text
	answer := httptest.NewRecorder()
	w.Handler().ServeHTTP(answer, r)
	maps.Copy(rw.Header(), answer.Header())
	rw.Header().Del("Content-Length")
	rw.Header().Set("Date", time.Now().Add(-w.behind).UTC().Format(http.TimeFormat))
	rw.WriteHeader(answer.Code)
	_, _ = w.edit.WriteString(rw, answer.Body.String())
}

// api implements the part of an API server that kubelets' flags and dry runs of the chart's objects need.
func (w *world) api(rw http.ResponseWriter, r *http.Request) {
	rw.Header().Set("Content-Type", "application/json")
	node, flags := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/api/v1/nodes/"), "/proxy/flagz")
	switch live := w.objects[r.URL.Path]; {
	case flags:
		_ = json.NewEncoder(rw).Encode(map[string]any{
			"kind":       "Flagz",
			"apiVersion": "config.k8s.io/v1beta1",
			"flags":      map[string]string{"cloud-provider": w.kubelet(node)},
		})

	case r.URL.Query().Get("dryRun") == metav1.DryRunAll:
		would := maps.Clone(live)
		_ = json.NewDecoder(r.Body).Decode(&would)
		_ = json.NewEncoder(rw).Encode(would)

	case r.Method == http.MethodGet && live != nil:
		_ = json.NewEncoder(rw).Encode(live)
	default:
		http.NotFound(rw, r)
	}
}

func newNode(name, ip string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:              name,
		CreationTimestamp: metav1.NewTime(fixed.Add(-time.Hour)),
		Annotations:       map[string]string{},
		Labels:            map[string]string{},
	}}
	n.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(fixed)},
	}
	n.Status.NodeInfo.KubeletVersion, n.Status.NodeInfo.OperatingSystem = testenv.KubeVersion, "linux"
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}
	return n
}

// newBalancer returns a Service of type LoadBalancer with the address of the example.
func newBalancer(namespace, name, uid string, ports ...corev1.ServicePort) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace:         namespace,
		Name:              name,
		UID:               types.UID(uid),
		CreationTimestamp: metav1.NewTime(fixed.Add(-time.Hour)),
		Annotations:       map[string]string{},
	}}
	s.Spec.Type, s.Spec.Ports = corev1.ServiceTypeLoadBalancer, ports
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.20"}}
	return s
}

// controller returns the release's Deployment with one ready Pod, and its lease.
func controller() (*appsv1.Deployment, *corev1.Pod, *coordinationv1.Lease) {
	c := corev1.Container{Name: "cloudstack-ccm", Image: "registry.example.org/cloudstack-ccm:v1.0.0"}
	d := testenv.Deployment(1)
	d.Spec.Template.Spec.Containers = []corev1.Container{c}
	c.Ports = []corev1.ContainerPort{{Name: "https", ContainerPort: 10258}}
	p := testenv.ReadyPod("cloud-controller-manager-1")
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet"}}
	p.Spec.NodeName, p.Spec.Containers = "demo-cp-1", []corev1.Container{c}
	l := testenv.Lease("cloud-controller-manager-1_x")
	l.Spec.RenewTime, l.Spec.LeaseDurationSeconds = &metav1.MicroTime{
		Time: fixed.Add(-2 * time.Second),
	}, ptr.To[int32](15)
	return d, p, l
}

// newWorld returns the example world with initialised nodes and renamed rules, in a CloudStack that has CKS. The
// changes modify it.
func newWorld(t *testing.T, changes ...func(*simulator.World)) *world {
	t.Helper()
	example := simulator.ExampleWorld()
	for i := range example.PublicIPs {
		for j := range example.PublicIPs[i].LoadBalancerRules {
			rule := &example.PublicIPs[i].LoadBalancerRules[j]
			if !strings.Contains(rule.Name, "-tcp-") {
				rule.Name = strings.Replace(rule.Name, "-", "-tcp-", 1)
			}
		}
	}
	example.Settings = map[string]string{"endpoint.url": "http://192.0.2.1:8080/client/api"}
	example.ServiceOfferings = append(
		example.ServiceOfferings, simulator.ServiceOffering{Name: "node", CPUs: 2, CPUSpeed: 1000, Memory: 2048},
	)
	example.KubernetesVersions = append(example.KubernetesVersions, simulator.KubernetesVersion{Semantic: "1.33.1"})
	for _, change := range changes {
		change(example)
	}
	w := &world{
		Cloud:   testenv.NewCloud(t, example),
		kubelet: func(string) string { return "external" },
		objects: map[string]map[string]any{},
		edit:    strings.NewReplacer(),
	}
	w.log = logLine('I', 30*time.Minute, "contact.go:32", `"CloudStack can be used" scope="3 VMs"`)
	for path, text := range map[string]string{
		rolePath: roleOfChart, accountPath: accountOfChart, workloadPath: workloadOfChart,
	} {
		var o map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(text), &o))
		w.objects[path] = o
	}
	cs, api := httptest.NewServer(http.HandlerFunc(w.cloud)), httptest.NewServer(http.HandlerFunc(w.api))
	t.Cleanup(cs.Close)
	t.Cleanup(api.Close)
	cfg := w.Config(t, "")
	cfg.APIURL, cfg.Zone = cs.URL+"/client/api", "zone-1"
	client, err := cloudapi.NewClient(cfg)
	require.NoError(t, err)

	namespace := testenv.KubeSystem()
	namespace.UID = thisCluster
	d, p, l := controller()
	web := newBalancer(
		"default", "web", webUID, corev1.ServicePort{Port: 80, NodePort: 30080},
		corev1.ServicePort{Port: 443, NodePort: 30443},
	)
	w.kube = fakekube.New(append(policies(), namespace, d, p, l, web)...)
	revision(t, w.kube, 1, helmrelease.StatusDeployed, nil)
	vms, err := client.ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
	require.NoError(t, err)
	for _, vm := range vms {
		n := newNode(vm.Name, vm.NICs[0].IPv4)
		n.Spec.ProviderID = "external-cloudstack://" + vm.ID
		n.Labels[corev1.LabelTopologyZone], n.Labels[corev1.LabelTopologyRegion] = vm.ZoneName, vm.ZoneName
		if vm.Name == "demo-cp-1" {
			n.Labels[corev1.LabelNodeExcludeBalancers] = ""
		}
		w.add(t, n)
	}
	w.kube.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &kversion.Info{
		GitVersion: testenv.KubeVersion,
	}
	w.deny(func(*authorizationv1.ResourceAttributes) bool { return false })
	w.kube.PrependReactor("get", "pods/log", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, &runtime.Unknown{Raw: []byte(w.log)}, nil
	})
	w.kube.AddProxyReactor("pods", func(a ktesting.Action) (bool, rest.ResponseWrapper, error) {
		switch a.(ktesting.ProxyGetAction).GetPath() {
		case "healthz":
			return true, answer{"ok", w.health}, nil
		case "configz":
			s := provider.State{Config: w.env.CloudConfig.Digests(), Waits: w.waits}
			shown, err := json.Marshal(map[string]any{
				"cloudstack":                           s,
				"cloudcontrollermanager.config.k8s.io": map[string]any{"Generic": 1},
			})
			return true, answer{string(shown), err}, nil
		default:
			return true, answer{"", errors.New("Unauthorized")}, nil
		}
	})
	w.env = &inspect.Env{
		Cluster: fakecluster.New(w.kube, &rest.Config{Host: api.URL}), CloudStack: client, CloudConfig: cfg,
		Setup: check.Setup{Namespace: system, Release: release}, Clock: clocktesting.NewFakeClock(fixed),
		DialAPI: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("connection refused")
		},
	}
	return w
}

// answer is a Pod's response through the API server.
type answer struct {
	text string
	err  error
}

func (a answer) DoRaw(context.Context) ([]byte, error) { return []byte(a.text), a.err }

func (a answer) Stream(context.Context) (io.ReadCloser, error) { return nil, errors.New("no stream") }

func (w *world) add(t *testing.T, o runtime.Object) {
	t.Helper()
	require.NoError(t, w.kube.Tracker().Add(o))
}

// change changes an object of the cluster.
func change[T any](t *testing.T, api interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
	Update(ctx context.Context, v T, o metav1.UpdateOptions) (T, error)
}, name string, change func(v T),
) {
	t.Helper()
	v, err := api.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	change(v)
	_, err = api.Update(t.Context(), v, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// deny makes the API server report that the caller lacks some rights.
func (w *world) deny(which func(*authorizationv1.ResourceAttributes) bool) {
	w.kube.PrependReactor("create", "selfsubjectaccessreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
		review := a.(ktesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		review.Status.Allowed = !which(review.Spec.ResourceAttributes)
		return true, review, nil
	})
}

// logLine returns a line in klog's format with the given age.
func logLine(level byte, ago time.Duration, source, text string) string {
	return fmt.Sprintf("%c%s       1 %s] %s\n", level, fixed.Add(-ago).Format("0102 15:04:05.000000"), source, text)
}

// policies returns the chart's admission policies with their bindings.
func policies() (out []runtime.Object) {
	for _, end := range []string{"annotations", "records", "tenancy"} {
		meta := metav1.ObjectMeta{Name: release + "-" + end, Labels: testenv.Labels}
		p, b := &admissionv1.ValidatingAdmissionPolicy{
			ObjectMeta: meta,
		}, &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta}
		p.Spec.FailurePolicy = ptr.To(admissionv1.Fail)
		b.Spec.PolicyName, b.Spec.ValidationActions = meta.Name, []admissionv1.ValidationAction{admissionv1.Deny}
		out = append(out, p, b)
	}
	return out
}

// revision adds a record of the release as Helm writes it.
func revision(t *testing.T, kube kubernetes.Interface, n int, status helmrelease.Status, values map[string]any) {
	t.Helper()
	key := fmt.Sprintf("sh.helm.release.v1.%s.v%d", release, n)
	require.NoError(t, driver.NewSecrets(kube.CoreV1().Secrets(system)).Create(key, &helmrelease.Release{
		Name:      release,
		Namespace: system,
		Version:   n,
		Manifest:  chartObjects,
		Config:    values,
		Info:      &helmrelease.Info{Status: status},
		Chart:     &chart.Chart{Metadata: &chart.Metadata{Name: release, Version: "1.0.0", AppVersion: "v1.0.0"}},
	}))
}

// storage adds the CSI driver as its chart installs it, registered on every node, with a Secret of its own.
func (w *world) storage(t *testing.T) {
	t.Helper()
	vms, err := w.env.CloudStack.ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
	require.NoError(t, err)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "csi-controller"}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "driver", Image: "mirror.example.org/csi/cloudstack-csi-driver:3.0.0@sha256:0",
		Args: []string{"--cloudstack-config=$(CLOUD_CONFIG)", "--cloudstack-config=/etc/config/driver"},
	}}

	d.Spec.Template.Spec.Volumes = []corev1.Volume{{
		Name:         "cloud-config",
		VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "cloudstack-secret"}},
	}}

	w.add(t, d)
	w.add(t, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: check.DriverName}})
	c := w.env.CloudConfig
	w.add(t,
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "cloudstack-secret"},
			Data: map[string][]byte{
				"cloud-config": c.Render(), "driver": fmt.Appendf(
					nil, "[Global]\napi-url = %s\napi-key = %s\nsecret-key = %s\n", c.APIURL, c.APIKey, c.SecretKey,
				),
			},
		})

	for _, vm := range vms {
		change(t, w.kube.CoreV1().Nodes(), vm.Name, func(n *corev1.Node) { n.Labels[check.ZoneKey] = vm.ZoneID })
		w.add(t,
			&storagev1.CSINode{
				ObjectMeta: metav1.ObjectMeta{Name: vm.Name},
				Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
					{Name: "other.example.org", NodeID: vm.Name},
					{Name: check.DriverName, NodeID: vm.ID, TopologyKeys: []string{check.ZoneKey}},
				}},
			})
	}
}
