// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/inspect"
	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/commands/rotate"
	"github.com/csccm/csccm/installer/commands/uninstall"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/taint"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/provider"
	"github.com/csccm/csccm/pkg/simulator"
)

// env is a cluster, in which the installed controller initialises nodes, and a CloudStack.
type env struct {
	*testenv.Env
	cloud *testenv.Cloud
	life  *life             // set if the run's calls go through it
	vms   map[string]string // ids by name

	mu      sync.Mutex
	running bool // the controller runs
	failing []check.Result
	pods    func(*appsv1.Deployment) []*corev1.Pod // returns the Pods of a new Deployment; nil = ready at once
}

// newEnv returns an env with the nodes and the CloudStack of the example.
func newEnv(t *testing.T) *env {
	t.Helper()
	return newEnvOf(t, simulator.ExampleWorld(), testenv.Owner, demoNodes()...)
}

// newEnvOf returns an env whose CloudStack has the user owner in the account of the nodes' VMs.
func newEnvOf(t *testing.T, world *simulator.World, owner string, nodes ...kruntime.Object) *env {
	t.Helper()
	e := &env{Env: testenv.New(t, nodes...), cloud: testenv.NewCloud(t, world), vms: map[string]string{}}
	vms, err := e.cloud.Client(t, owner).ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
	require.NoError(t, err)
	for _, vm := range vms {
		e.vms[vm.Name] = vm.ID
	}
	e.cloud.Ledger().Reset()
	e.Poll = func() { e.controller(t.Context()) }
	e.Releases.Changed = e.changed
	return e
}

// controller initialises tainted nodes while it runs.
func (e *env) controller(ctx context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.running {
		return
	}

	list, err := e.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}

	for _, it := range list.Items {
		n := &it
		before := len(n.Spec.Taints)
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taint.Key })
		if len(n.Spec.Taints) == before {
			continue
		}
		n.Spec.ProviderID = "external-cloudstack://" + e.vms[n.Name]
		maps.Copy(n.Labels,
			map[string]string{corev1.LabelTopologyZone: "zone-1", corev1.LabelInstanceTypeStable: "Small_Instance"})
		_, _ = e.Kube.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
	}
}

// changed creates or removes the controller of a release.
func (e *env) changed(ctx context.Context, r *helm.Release) error {
	d := testenv.Deployment(2)
	d.Annotations = map[string]string{"meta.helm.sh/release-name": "cloudstack-ccm"}
	deployments, pods := e.Kube.AppsV1().Deployments(d.Namespace), e.Kube.CoreV1().Pods(d.Namespace)
	if r == nil {
		e.run(false)
		if err := deployments.Delete(ctx, d.Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		return pods.Delete(ctx, "ccm-0", metav1.DeleteOptions{})
	}

	if e.pods != nil {
		for _, p := range e.pods(d) {
			p.Namespace, p.Labels = d.Namespace, testenv.Labels
			if _, err := pods.Create(ctx, p, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
	}

	if _, err := deployments.Create(ctx, d, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}

	e.run(d.Status.AvailableReplicas > 0)
	return nil
}

func (e *env) run(running bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running = running
}

// onePod gives the Deployment one ready Pod.
func (e *env) onePod() {
	e.pods = func(*appsv1.Deployment) []*corev1.Pod { return []*corev1.Pod{testenv.ReadyPod("ccm-0")} }
}

func aNode(name, ip string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:            name,
			ResourceVersion: "1",
			Labels:          map[string]string{corev1.LabelHostname: name},
		},
		Spec: corev1.NodeSpec{Taints: taints},
		Status: corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// demoNodes returns the nodes of the example world: one new node, and two that existed before.
func demoNodes() []kruntime.Object {
	cp := aNode("demo-cp-1", "10.1.1.11")
	cp.Labels["node-role.kubernetes.io/control-plane"] = ""
	return []kruntime.Object{
		cp, aNode("demo-worker-1", "10.1.1.21"),
		aNode("demo-worker-2", "10.1.1.22",
			corev1.Taint{Key: taint.Key, Value: "true", Effect: corev1.TaintEffectNoSchedule}),
	}
}

// installer returns an install that has not begun.
type installer struct {
	Config
	env *env
}

func (in *installer) Run(ctx context.Context) error { return Run(ctx, in.env.Env.Env, in.Config) }

func (e *env) installer(t *testing.T, c Config) *installer {
	t.Helper()
	if c.Chart == nil {
		var err error
		c.Chart, err = helm.Embedded()
		require.NoError(t, err)
	}

	c.checks = func(
		_ context.Context, env *inspect.Env, sel check.Selection, _ func(check.Result),
	) (check.Report, *check.Facts) {
		if env.CloudStack == nil && env.NoCloud == "" {
			t.Error("checks without CloudStack must say why")
		}
		r := check.Report{Phase: sel.Phase, Summary: check.Summary{OK: 1}}
		for _, f := range e.failing {
			if !slices.Contains(sel.Skip, f.Code) {
				r.Checks = append(r.Checks, f)
				r.Summary.Failed++
			}
		}
		return r, nil
	}

	return &installer{Config: c, env: e}
}

// install runs an install that must succeed.
func (e *env) install(t *testing.T, c Config) {
	t.Helper()
	require.NoError(t, e.installer(t, c).Run(t.Context()), e.Stderr.String())
}

// config returns the cloud-config in the Secret.
func (e *env) config(t *testing.T) *cloudstack.Config {
	t.Helper()
	cfg, err := cloudconfig.Parse(bytes.NewReader(e.Secret(t, access.SecretName)[access.SecretKey]))
	require.NoError(t, err)
	return cfg
}

// admin returns the options of an install with an administrator's login, keys those with existing keys.
func (e *env) admin() Config {
	return Config{
		Layers:    access.Layers{Answers: access.Settings{"api-url": e.cloud.URL, "zone": "zone-1"}},
		AdminUser: "admin", AdminPassword: "password", Account: "k8s", Values: map[string]any{"hostNetwork": false},
		Typed: []string{"--account", "k8s", "--set", "hostNetwork=false", "--set", "bindAddress=$(POD_IP)"},
	}
}

func (e *env) keys(t *testing.T) Config {
	t.Helper()
	c := e.cloud.Config(t, testenv.Owner)
	return Config{
		Layers: access.Layers{
			Answers: access.Settings{"api-url": e.cloud.URL, "api-key": c.APIKey, "secret-key": c.SecretKey},
		},
	}
}

// rotate runs csccm rotate-keys with a controller that reloads the keys.
func (e *env) rotate(t *testing.T) {
	t.Helper()
	run, logs := *e.Env.Env, ""
	e.Kube.PrependReactor("create", "selfsubjectaccessreviews", func(ktesting.Action) (bool, kruntime.Object, error) {
		return true, &authorizationv1.SelfSubjectAccessReview{
			Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true},
		}, nil
	})
	run.PodLogs = func(context.Context, *corev1.Pod, int64) (string, error) {
		said := logs
		logs += "Changed credentials or CA certificates are in use\n"
		return said, nil
	}
	require.NoError(t, rotate.Run(t.Context(), &run, rotate.Options{
		Admin:    (&Config{AdminUser: "admin", AdminPassword: "password"}).LogIn,
		Required: provider.RequiredCommands, Optional: provider.OptionalCommands,
	}), e.Stderr.String())
}

// uninstall runs csccm uninstall --delete-user.
func (e *env) uninstall(t *testing.T, dry bool) {
	t.Helper()
	run := *e.Env.Env
	run.DryRun = dry
	require.NoError(t, uninstall.Run(t.Context(), &run, uninstall.Options{
		DeleteUser: true,
		Admin: func(ctx context.Context, at *engine.Env, cfg *cloudstack.Config) (*cloudapi.Client, func(), error) {
			require.Equal(t, e.cloud.URL, cfg.APIURL, "the login goes to the API of the list")
			require.Empty(t, cfg.SecretKey)
			return (&Config{AdminUser: "admin", AdminPassword: "password"}).LogIn(ctx, at, cfg)
		},
	}), e.Stderr.String())
}

// putSecret makes the controller's Secret.
func (e *env) putSecret(t *testing.T, cloudConfig string) {
	t.Helper()
	require.NoError(t, e.Kube.Tracker().Add(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: testenv.Namespace, Name: access.SecretName},
		Data:       map[string][]byte{access.SecretKey: []byte(cloudConfig)},
	}))
}

func (e *env) putKeys(t *testing.T, api, secret string) {
	t.Helper()
	e.putSecret(t, "[Global]\napi-url = "+e.cloud.URL+"\napi-key = "+api+"\nsecret-key = "+secret+"\n")
}

// requireNoSecrets: the keys of the Secret and of the VMs' owner, and these words, are in no output.
func (e *env) requireNoSecrets(t *testing.T, more ...string) {
	t.Helper()
	if data := e.Secret(t, access.SecretName); data != nil {
		if cfg, err := cloudconfig.Parse(bytes.NewReader(data[access.SecretKey])); err == nil {
			more = append(more, cfg.APIKey, cfg.SecretKey)
		}
	}
	if api, secret, ok := e.cloud.Keys(testenv.Owner); ok {
		more = append(more, api, secret)
	}
	for _, w := range more {
		require.NotContains(t, e.Said(), w)
	}
}

func (e *env) initialised(t *testing.T) int {
	t.Helper()
	list, err := e.Kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	return len(slices.DeleteFunc(list.Items, func(n corev1.Node) bool { return !taint.Initialised(&n) }))
}
