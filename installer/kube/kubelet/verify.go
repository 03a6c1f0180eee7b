// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/csccm/csccm/installer/kube/cluster"
)

// Limits of Verify. A kubelet normally answers within milliseconds. If a firewall drops the API server's packets to all
// kubelets, Verify must still end before the time-out of the check that calls it (20 s), so that the verdicts can be
// based on the Node objects.
const (
	workers     = 32
	perKubelet  = 5 * time.Second
	allKubelets = 15 * time.Second
)

// Verify returns the verdicts on the kubelets of nodes, in the same order. It requests the flags of many kubelets at
// the same time through the API server. It waits at most 5 s for one kubelet and 15 s for all of them; a kubelet that
// does not answer is not an error. If o is not nil, it also runs a probe Pod on each node whose verdict is Unknown.
func Verify(ctx context.Context, c *cluster.Cluster, nodes []corev1.Node, o *ProbeOptions) []NodeVerdict {
	// Ignore the error: the distribution only determines the remedy, and there is a generic one.
	distribution, _, _ := c.Distribution(ctx, nodes)
	verdicts := verify(ctx, newProber(c), distribution, nodes)
	if o == nil {
		return verdicts
	}
	_, _ = cluster.Each(ctx, verdicts, func(ctx context.Context, v *NodeVerdict) (none struct{}, _ error) {
		if v.Verdict == Unknown {
			v.Evidence = append(fromFlags("probe Pod", probe(ctx, c, *o, v.Node)), v.Evidence...)
			v.settle(distribution)
		}
		return none, nil
	})
	return verdicts
}

// newProber returns nil without a connection.
func newProber(c *cluster.Cluster) *prober {
	if c.REST == nil { // in tests
		return nil
	}
	client, err := rest.HTTPClientFor(c.REST)
	base, _, berr := rest.DefaultServerUrlFor(c.REST)
	if err != nil || berr != nil {
		return nil
	}
	return &prober{client, base}
}

func verify(ctx context.Context, p *prober, d cluster.Distribution, nodes []corev1.Node) []NodeVerdict {
	controllerDisabled := slices.ContainsFunc(nodes, func(n corev1.Node) bool { return disablesCloudController(&n) })
	ctx, cancelAll := context.WithTimeout(ctx, allKubelets)
	defer cancelAll()
	out := make([]NodeVerdict, len(nodes))
	workqueue.ParallelizeUntil(context.WithoutCancel(ctx), workers, len(nodes), func(i int) { // each node gets a verdict
		f := Facts{Node: &nodes[i], Distribution: d, CloudControllerDisabled: controllerDisabled}
		f.Flagz = Answer{Failure: FailureOther, Detail: "no connection to the API server"}
		if p != nil {
			actx, cancel := context.WithTimeout(ctx, perKubelet)
			defer cancel()
			f.Flagz = p.ask(actx, nodes[i].Name)
		}
		out[i] = Judge(f)
	})
	return out
}
