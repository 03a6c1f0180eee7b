// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/service"
	"github.com/csccm/csccm/pkg/simulator"
)

// What Kubernetes' own service controller does for a Service, ours does too: CONTRIBUTING.md has the table.

// The finalizer is there before the first change of CloudStack, and goes after the last one, with the status.
func TestFinalizerAndEventsAsKubernetesHasThem(t *testing.T) {
	t.Parallel()
	withFramework(t, simulator.Options{}, lbWorld, func(env *frameworkEnv) {
		before := env.dump()
		changedBefore, left := []string{"never added"}, []string{"never removed"}
		env.react("patch", "services", func(a clienttesting.Action) (bool, runtime.Object, error) {
			patch, _ := a.(clienttesting.PatchAction)
			switch body := string(patch.GetPatch()); {
			case strings.Contains(body, "$deleteFromPrimitiveList/finalizers"):
				left = env.dump()
			case strings.Contains(body, "finalizers"):
				changedBefore = slices.DeleteFunc(env.Calls("ccm"), func(c string) bool { return strings.HasPrefix(c, "list") })
			}
			return false, nil, nil
		})
		env.count()
		env.create("web", []int{80})
		time.Sleep(time.Minute)
		require.True(t, env.served("web"))
		synctest.Wait()
		assert.True(t, servicehelpers.HasLBFinalizer(env.get("web")))
		assert.Empty(t, changedBefore)
		assert.Equal(t, []string{"EnsuringLoadBalancer", "EnsuredLoadBalancer"}, env.reasons())

		env.count()
		env.edit("web", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, before, left, "nothing is left when the finalizer goes")
		svc := env.get("web")
		assert.False(t, servicehelpers.HasLBFinalizer(svc))
		assert.Empty(t, svc.Status.LoadBalancer.Ingress)
		assert.Empty(t, svc.Status.Conditions)
		assert.Equal(t, []string{"DeletingLoadBalancer", "DeletedLoadBalancer"}, env.reasons())
	})
}

// reasons are the reasons of the Events since the last count that Kubernetes' service controller has too.
func (env *frameworkEnv) reasons() (out []string) {
	for _, e := range env.said() {
		if reason, _, ok := strings.Cut(e, ": "); ok && strings.HasSuffix(reason, "LoadBalancer") {
			out = append(out, reason)
		}
	}
	return out
}

// A Service that was deleted without its finalizer and created again under its name was cleaned up again and again.
func TestRecreatedServiceIsCleanedUpOnce(t *testing.T) {
	t.Parallel()
	env := served(t, []int{80})
	env.react("patch", "services", func(a clienttesting.Action) (bool, runtime.Object, error) {
		patch, _ := a.(clienttesting.PatchAction)
		conflict := apierrors.NewConflict(schema.GroupResource{Resource: "services"}, "web", nil) // as the API server has it
		return strings.Contains(string(patch.GetPatch()), string(webUID)), nil, conflict
	})
	old := service.KeyOf(env.get("web"))
	env.forget("web")
	env.create("web", []int{80}, func(s *corev1.Service) { s.UID = mailUID })
	_, err := env.lb.Sync(t.Context(), old)
	require.NoError(t, err)
	assert.Equal(t, env.before, env.dump())
}

// Clusters without a name share the default one: objects of another such cluster must not be removed as orphans.
// Without an id of its own a cluster is known by the UID of namespace kube-system.
func TestNamesOfClusters(t *testing.T) {
	t.Parallel()
	kube := testenv.Kube(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "uid-1"}})
	for _, c := range []struct {
		name    string
		options Options
		config  string
		id      string
		wrong   bool
	}{
		{name: "none: the cluster's own", id: "uid-1"},
		{name: "the framework's default", options: Options{ClusterName: "kubernetes"}, id: "uid-1"},
		{name: "the framework's default, as a flag", options: Options{ClusterID: "kubernetes"}, id: "kubernetes", wrong: true},
		{name: "the framework's default, in the cloud-config", config: "kubernetes", id: "kubernetes", wrong: true},
		{name: "a flag", options: Options{ClusterID: "prod", ClusterName: "name"}, config: "file", id: "prod"},
		{name: "the cloud-config", options: Options{ClusterName: "name"}, config: "prod", id: "prod"},
		{name: "the framework's", options: Options{ClusterName: "prod"}, id: "prod"},
	} {
		o := DefaultOptions()
		o.ClusterID, o.ClusterName = c.options.ClusterID, c.options.ClusterName
		cfg := &cloudstack.Config{APIURL: "http://127.0.0.1/client/api", APIKey: "key", SecretKey: "secret", ClusterID: c.config}
		p, err := New(cfg, o)
		require.NoError(t, err, c.name)
		require.NoError(t, p.readClusterUID(t.Context(), kube), c.name)
		assert.Equal(t, c.id, p.clusterID(), c.name)
		p.options.RegisterCluster = "entry" // whose owner is named by the UID in any case
		require.NoError(t, p.readClusterUID(t.Context(), kube), c.name)
		assert.Equal(t, "uid-1", p.registration().ClusterID, c.name)
		assert.Equal(t, c.id, p.clusterID(), c.name)
		o.CleanOrphans = true
		_, err = New(cfg, o)
		if c.wrong {
			require.ErrorContains(t, err, "--cluster-id", c.name)
			continue
		}
		require.NoError(t, err, c.name)
	}

	assert.Empty(t, ClusterID("", "", "kubernetes", ""), "no UID was read yet")
	for _, id := range []string{strings.Repeat("a", 129), " prod", "prod\n", "prod \U0001F680", "\xff"} {
		o := DefaultOptions()
		o.ClusterID = id
		_, err := New(&cloudstack.Config{APIURL: "http://127.0.0.1/client/api", APIKey: "key", SecretKey: "secret"}, o)
		require.ErrorContains(t, err, "cluster-id", id)
	}
}

var (
	readyEndpoint  = discoveryv1.EndpointConditions{Ready: ptr.To(true)}
	endingEndpoint = discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(true), Terminating: ptr.To(true)}
)

// endpoints sets the endpoints of a Service, by node.
func (a *apiServer) endpoints(key string, nodes endpoints) {
	a.t.Helper()
	namespace, name := a.split(key)
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for node, conditions := range nodes {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{NodeName: &node, Conditions: conditions})
	}
	slices := a.kube.DiscoveryV1().EndpointSlices(namespace)
	_, err := slices.Create(a.t.Context(), s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = slices.Update(a.t.Context(), s, metav1.UpdateOptions{})
	}
	require.NoError(a.t, err)
}

type endpoints = map[string]discoveryv1.EndpointConditions

// A drift round uses the current labels of the nodes, also if events of the informer were lost.
func TestDriftRoundSeesLabels(t *testing.T) {
	t.Parallel()
	labelled := map[string]string{}
	env := newEnv(t, withDeps(func(d *service.Deps) {
		d.Nodes = func() ([]*corev1.Node, error) {
			nodes := nodesNamed("w1", "w2")
			for _, n := range nodes {
				n.Labels = map[string]string{"tier": labelled[n.Name]}
			}
			return nodes, nil
		}
	}))
	env.create("web", []int{80}, annotate(annotation.NodeSelector, "tier=web"))
	env.mustSync("web")
	ip := env.get("web").Status.LoadBalancer.Ingress[0].IP
	for _, name := range []string{"w1", "w2"} {
		clear(labelled)
		labelled[name] = "web"
		env.round(5 * time.Minute)
		assert.Contains(t, of(env.dump(), ip), "rule a7c3e1b5200004000800000000000abc-tcp-80 80->30080 tcp roundrobin [0.0.0.0/0] ["+name+"]")
	}
}
