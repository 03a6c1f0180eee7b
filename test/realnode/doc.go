// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package realnode makes real Kubernetes nodes on one Linux machine, as root: each is
// a set of namespaces with containerd, kubelet and kube-proxy in it, so that Pods run
// and packets go the way they go on a cluster. Everything happens in a sandbox (see
// Enter), which the kernel ends as a whole.
package realnode
