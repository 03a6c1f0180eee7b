// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/pkg/leader"
	"github.com/csccm/csccm/pkg/provider"
)

// handOverTimeout is for calls under way when the process is told to end; the longest is one of CloudStack's
// that waits for a lock. It must fit into the Pod's grace period of 30 s.
const handOverTimeout = 20 * time.Second

// initializer hands the provider that was made from the flags to the framework, and puts the fence around
// what both of them write.
type initializer struct {
	provider cloudprovider.Interface
	fence    *leader.Fence
	stop     <-chan struct{}
	unfenced *rest.Config // nil without an election
}

// cloud is the framework's hook: flags are read, and no client of the controllers is made yet.
func (i *initializer) cloud(c *config.CompletedConfig) cloudprovider.Interface {
	if e := c.ComponentConfig.Generic.LeaderElection; e.LeaderElect {
		i.unfenced = rest.CopyConfig(c.Kubeconfig)
		i.fence.Guard(leader.Lease{Namespace: e.ResourceNamespace, Name: e.ResourceName, Duration: e.LeaseDuration.Duration})
	}
	c.Kubeconfig.Wrap(i.fence.Wrap)
	if p, ok := i.provider.(*provider.Provider); ok {
		go p.FollowConfig(wait.ContextForChannel(i.stop))
	}
	return i.provider
}

// handOver ends all writes and frees the lease for the next leader.
func (i *initializer) handOver() {
	if i.unfenced == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), handOverTimeout)
	defer cancel()
	host, hostErr := os.Hostname() // with which the framework's identity begins
	client, err := coordinationv1client.NewForConfig(i.unfenced)
	released := false
	if err = errors.Join(hostErr, err); err == nil {
		released, err = i.fence.HandOver(ctx, client, host)
	}
	switch {
	case err != nil:
		klog.ErrorS(err, "The lease is left to run out")
	case released:
		klog.InfoS("The lease is released: another replica can lead at once")
	}
}
