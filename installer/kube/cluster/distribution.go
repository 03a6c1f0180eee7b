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

// Distribution is how a cluster was made, as far as that decides where a kubelet's flags are set.
type Distribution string

// Distributions that csccm knows remedies for.
const (
	Unknown    Distribution = "unknown"
	Kubeadm    Distribution = "kubeadm"
	K3s        Distribution = "k3s"
	RKE2       Distribution = "RKE2"
	K0s        Distribution = "k0s"
	Talos      Distribution = "Talos"
	CKS        Distribution = "CKS"         // CloudStack Kubernetes Service
	ClusterAPI Distribution = "Cluster API" // with the CloudStack provider, or another
)

// marks are the distributions that a Node tells by its kubelet's version, its OS image, or an annotation.
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

// Detect names the distribution, and what it was told by. kubeadm: ConfigMap kube-system/kubeadm-config exists; secret:
// Secret kube-system/cloudstack-secret exists, which CKS creates in every cluster.
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
		slices.ContainsFunc(nodes,
			func(n corev1.Node) bool { return NamedByCKS(n.Name) && strings.Contains(n.Name, "-control-") }):
		return CKS, "names of the control plane's nodes, Secret kube-system/cloudstack-secret"
	case kubeadm:
		return Kubeadm, "ConfigMap kube-system/kubeadm-config"
	}

	return Unknown, "no mark of a known distribution"
}

// cksName matches the names that CKS gives to VMs. They end in the time in milliseconds as a hexadecimal number.
var cksName = regexp.MustCompile(`^.+-(control|node)-[0-9a-f]{11}$`)

// NamedByCKS reports whether a node is named as CKS names its VMs. Nodes of a cluster of CKS may have other names:
// CloudStack 4.21 adds existing VMs.
func NamedByCKS(name string) bool { return cksName.MatchString(name) }

// Distribution detects the distribution by the nodes and what is in kube-system. What may not be read counts as not
// there, since the distribution only chooses the words of a remedy.
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
