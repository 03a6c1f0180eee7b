// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// called makes a controller of a cluster with that id, which was called kubernetes before.
func called(id string) func(*loadBalancerDeps) {
	return func(d *loadBalancerDeps) {
		d.ClusterID, d.FormerClusterID = func() string { return id }, commonClusterID
	}
}

// What the controller made under the former default name goes on being its own, and gets the new name.
func TestTenantCFormerNameOfTheCluster(t *testing.T) {
	t.Parallel()
	for _, record := range []string{"with its record", "without its record"} {
		t.Run(record, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, func(b *bed, _ *string) { b.options = called(commonClusterID) })
			before := b.dump()
			b.service([]int{80})
			b.mustSync("w1")
			ip := b.ip()
			require.Contains(t, strings.Join(of(b.dump(), ip), "\n"), "csccm-cluster=kubernetes")
			if record == "without its record" {
				b.change(func(s *corev1.Service) { delete(s.Annotations, annotation.Addresses) })
			}
			b.options = called("uid-of-kube-system")
			b.restart()
			b.mustSync("w1")
			assert.Equal(t, ip, b.ip())
			now := strings.Join(of(b.dump(), ip), "\n")
			assert.Contains(t, now, "csccm-cluster=uid-of-kube-system")
			assert.NotContains(t, now, "csccm-cluster=kubernetes")
			b.restart()
			b.reset()
			b.mustSync("w1")
			assert.Zero(t, b.sim.Ledger().Count("createTags", "deleteTags"))
			require.NoError(t, b.remove())
			assert.Equal(t, before, b.dump())
		})
	}
}

// Another cluster that has no id either is called kubernetes too: its addresses are not ours.
func TestTenantCAnotherClusterOfTheFormerName(t *testing.T) {
	t.Parallel()
	other := plan.Tags(commonClusterID, plan.Service{Namespace: "default", Name: "web", UID: mailUID})
	var tags []string
	for k, v := range other {
		tags = append(tags, k+": "+v)
	}
	slices.Sort(tags)
	b := newBed(t, withWorld(func(w string) string {
		return w + "  - {address: 203.0.113.44, network: k8s-net, tags: {" + strings.Join(tags, ", ") + "}}\n"
	}), func(b *bed, _ *string) { b.options = called("uid-of-kube-system") })
	before := b.dump()
	b.service([]int{80}, annotate(annotation.Address, "203.0.113.44"))
	require.ErrorContains(t, b.sync("w1"), "another cluster")
	assert.Equal(t, before, b.dump())
}

// Without an id of its own a cluster is known by the UID of namespace kube-system.
func TestClusterIsKnownByKubeSystem(t *testing.T) {
	t.Parallel()
	cfg := cloudstack.Config{APIURL: "http://127.0.0.1/client/api", APIKey: "key", SecretKey: "secret"}
	kube := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "uid-1"}})
	for name, c := range map[string]struct {
		options func(*Options)
		config  string
		want    string
	}{
		"nothing is given":        {want: "uid-1"},
		"the framework's default": {options: func(o *Options) { o.ClusterName = commonClusterID }, want: "uid-1"},
		"a name of the cluster":   {options: func(o *Options) { o.ClusterName = "prod" }, want: "prod"},
		"a flag":                  {options: func(o *Options) { o.ClusterID = "flag" }, config: "file", want: "flag"},
		"the cloud-config":        {config: "file", want: "file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, own := DefaultOptions(), cfg
			if c.options != nil {
				c.options(&o)
			}
			own.ClusterID = c.config
			p, err := New(&own, o)
			require.NoError(t, err)
			require.NoError(t, p.readClusterUID(t.Context(), kube))
			assert.Equal(t, c.want, p.clusterID())
		})
	}
}
