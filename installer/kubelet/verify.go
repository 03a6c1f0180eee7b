// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/csccm/csccm/installer/cluster"
)

// A kubelet answers within milliseconds. Where a firewall swallows what the API server sends to all of them,
// the whole must end before the check that waits for it gives up (20 s), so that the nodes themselves can speak.
const (
	workers     = 32
	perKubelet  = 5 * time.Second
	allKubelets = 15 * time.Second
)

// Verify judges the kubelets of nodes, in their order. It asks each kubelet through the API
// server, many at once; one that does not answer costs 5 s, all of them 15 s, and makes no error.
func Verify(ctx context.Context, c *cluster.Cluster, nodes []corev1.Node) []NodeVerdict {
	return VerifyWith(ctx, c, nodes, nil)
}

// VerifyWith is Verify that, with options, runs a Pod on each node whose verdict would be Unknown.
func VerifyWith(ctx context.Context, c *cluster.Cluster, nodes []corev1.Node, o *ProbeOptions) []NodeVerdict {
	// The distribution only chooses the words of the remedy: an error here is the generic one.
	distribution, _, _ := c.Distribution(ctx, nodes)
	verdicts := verify(ctx, newProber(c), distribution, nodes)
	if o == nil {
		return verdicts
	}
	var dark []string
	for i := range verdicts {
		if verdicts[i].Verdict == Unknown {
			dark = append(dark, nodes[i].Name)
		}
	}
	answers := probeAll(ctx, c, *o, dark)
	for i := range verdicts {
		if a, probed := answers[nodes[i].Name]; probed {
			verdicts[i].Evidence = append(fromFlags(a), verdicts[i].Evidence...)
			verdicts[i].settle(distribution)
		}
	}
	return verdicts
}

// disabled tells whether a server of k3s or RKE2 runs without its own cloud controller.
func disabled(nodes []corev1.Node) bool {
	return slices.ContainsFunc(nodes, func(n corev1.Node) bool { return DisablesCloudController(&n) })
}

func newProber(c *cluster.Cluster) *prober {
	if c.REST == nil {
		return nil
	}
	client, err := rest.HTTPClientFor(c.REST)
	if err != nil {
		return nil
	}
	base, _, err := rest.DefaultServerUrlFor(c.REST)
	if err != nil {
		return nil
	}
	return &prober{client: client, base: base}
}

func verify(ctx context.Context, p *prober, d cluster.Distribution, nodes []corev1.Node) []NodeVerdict {
	withoutOwn := disabled(nodes)
	ctx, cancelAll := context.WithTimeout(ctx, allKubelets)
	defer cancelAll()
	out := make([]NodeVerdict, len(nodes))
	slots := make(chan struct{}, workers)
	var wg sync.WaitGroup
	for i := range nodes {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f := Facts{Node: &nodes[i], Distribution: d, CloudControllerDisabled: withoutOwn}
			f.Flagz = Answer{Failure: FailureOther, Detail: "no connection to the API server"}
			if p != nil {
				actx, cancel := context.WithTimeout(ctx, perKubelet)
				defer cancel()
				f.Flagz = p.ask(actx, nodes[i].Name)
			}
			out[i] = Judge(f)
		})
	}
	wg.Wait()
	return out
}
