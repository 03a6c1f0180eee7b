// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Distribution is the tool that created a cluster. It determines where the flags of a kubelet are set.
type Distribution string

// Distributions for which csccm has remedies.
const (
	Unknown    Distribution = "unknown"
	Kubeadm    Distribution = "kubeadm"
	K3s        Distribution = "k3s"
	RKE2       Distribution = "RKE2"
	K0s        Distribution = "k0s"
	Talos      Distribution = "Talos"
	CKS        Distribution = "CKS"         // CloudStack Kubernetes Service
	ClusterAPI Distribution = "Cluster API" // with any infrastructure provider
)

// marks are the distributions that csccm recognises by a Node's kubelet version, OS image or annotations.
var marks = []struct {
	of   Distribution
	sign *regexp.Regexp
}{
	{K3s, regexp.MustCompile(`^kubelet version .*\+k3s|^annotation k3s\.io/`)},
	{RKE2, regexp.MustCompile(`^kubelet version .*\+rke2|^annotation rke2\.io/`)},
	{K0s, regexp.MustCompile(`^kubelet version .*\+k0s`)},
	{Talos, regexp.MustCompile(`^OS image Talos`)},
	{ClusterAPI, regexp.MustCompile(`^annotation cluster\.x-k8s\.io/`)},
}

// Detect returns the distribution, and the evidence for it. kubeadm reports whether ConfigMap
// kube-system/kubeadm-config exists; secret whether Secret kube-system/cloudstack-secret does, which CKS creates in
// every cluster.
func Detect(nodes []corev1.Node, kubeadm, secret bool) (Distribution, string) {
	for _, n := range nodes {
		is := []string{"kubelet version " + n.Status.NodeInfo.KubeletVersion, "OS image " + n.Status.NodeInfo.OSImage}
		for key := range n.Annotations {
			is = append(is, "annotation "+key)
		}
		for _, m := range marks {
			if at := slices.IndexFunc(is, m.sign.MatchString); at >= 0 {
				return m.of, is[at]
			}
		}
	}

	switch {
	case kubeadm &&
		secret &&
		slices.ContainsFunc(nodes, func(n corev1.Node) bool {
			return NamedByCKS(n.Name) && strings.Contains(n.Name, "-control-")
		}):
		return CKS, "names of the control plane's nodes, Secret kube-system/cloudstack-secret"
	case kubeadm:
		return Kubeadm, "ConfigMap kube-system/kubeadm-config"
	}

	return Unknown, "no mark of a known distribution"
}

// cksName matches the names that CKS gives to VMs. They end in the time in milliseconds as a hexadecimal number.
var cksName = regexp.MustCompile(`^.+-(control|node)-[0-9a-f]{11}$`)

// NamedByCKS reports whether a node's name has the form of CKS's VM names. Nodes of a CKS cluster may have other names:
// since CloudStack 4.21 existing VMs can be added.
func NamedByCKS(name string) bool { return cksName.MatchString(name) }

// Distribution detects the distribution by the nodes and by objects in kube-system. An object that the user may not
// read counts as missing, because the distribution only determines the text of a remedy.
func (c *Cluster) Distribution(ctx context.Context, nodes []corev1.Node) (Distribution, string, error) {
	_, err := c.Kube.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, "kubeadm-config", metav1.GetOptions{})
	_, serr := c.Kube.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, "cloudstack-secret", metav1.GetOptions{})
	for _, err := range []error{err, serr} {
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			return Unknown, "", err
		}
	}
	d, by := Detect(nodes, err == nil, serr == nil)
	return d, by, nil
}
