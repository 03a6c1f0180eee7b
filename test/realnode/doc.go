// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package realnode runs real Kubernetes nodes on one Linux machine, as root. Each node is a set of namespaces with
// containerd, kubelet and kube-proxy, so Pods run and packets are routed as on a cluster. All nodes run in a sandbox
// (see Enter), which the kernel ends as a whole. Functions that return no error fail through package must.
package realnode
