// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fakecluster makes connections to clusters that do not exist.
package fakecluster

import (
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/csccm/csccm/installer/kube/cluster"
)

// New returns a Cluster with a fake clientset, and with a rest.Config if one is given.
func New(kube kubernetes.Interface, cfg ...*rest.Config) *cluster.Cluster {
	c := &cluster.Cluster{Kube: kube, Namespace: cluster.DefaultNamespace, Context: "test"}
	if len(cfg) > 0 {
		c.REST, c.Server = cfg[0], cfg[0].Host
	}
	return c
}
