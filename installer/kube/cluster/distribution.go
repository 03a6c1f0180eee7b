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

// DistributionFacts are the facts that Detect decides by.
type DistributionFacts struct {
	Nodes []corev1.Node
	// KubeadmConfig: ConfigMap kube-system/kubeadm-config exists.
	KubeadmConfig bool
	// CloudStackSecret: Secret kube-system/cloudstack-secret exists. CKS creates it in every cluster.
	CloudStackSecret bool
}

// byAnnotation are the distributions that annotations of their Nodes tell, by how the names begin.
var byAnnotation = map[string]Distribution{"k3s.io/": K3s, "rke2.io/": RKE2, "cluster.x-k8s.io/": ClusterAPI}

// Detect names the distribution, and what it was told by.
func Detect(f DistributionFacts) (Distribution, string) {
	for i := range f.Nodes {
		n := &f.Nodes[i]
		version, image := n.Status.NodeInfo.KubeletVersion, n.Status.NodeInfo.OSImage
		for _, d := range []Distribution{K3s, RKE2, K0s} {
			if strings.Contains(version, "+"+strings.ToLower(string(d))) {
				return d, "kubelet version " + version
			}
		}
		if strings.HasPrefix(image, "Talos") {
			return Talos, "OS image " + image
		}
		for key := range n.Annotations {
			for prefix, d := range byAnnotation {
				if strings.HasPrefix(key, prefix) {
					return d, "annotation " + key
				}
			}
		}
	}
	switch {
	case f.KubeadmConfig && f.CloudStackSecret && slices.ContainsFunc(f.Nodes, cksControlNode):
		return CKS, "names of the control plane's nodes, Secret kube-system/cloudstack-secret"
	case f.KubeadmConfig:
		return Kubeadm, "ConfigMap kube-system/kubeadm-config"
	}
	return Unknown, "no mark of a known distribution"
}

// cksName matches the names that CKS gives to VMs. They end in the time in milliseconds as a hexadecimal number.
var cksName = regexp.MustCompile(`^.+-(control|node)-[0-9a-f]{11}$`)

// NamedByCKS reports whether a node is named as CKS names its VMs. Nodes of a cluster of CKS may have other names:
// CloudStack 4.21 adds existing VMs.
func NamedByCKS(name string) bool { return cksName.MatchString(name) }

func cksControlNode(n corev1.Node) bool {
	return NamedByCKS(n.Name) && strings.Contains(n.Name, "-control-")
}

// Distribution reads the facts and detects. nodes may be nil: then they are read too.
func (c *Cluster) Distribution(ctx context.Context, nodes []corev1.Node) (Distribution, string, error) {
	if nodes == nil {
		list, err := c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return Unknown, "", c.Explain(err)
		}
		nodes = list.Items
	}
	f := DistributionFacts{Nodes: nodes}
	core := c.Kube.CoreV1()
	_, err := core.ConfigMaps(metav1.NamespaceSystem).Get(ctx, "kubeadm-config", metav1.GetOptions{})
	if f.KubeadmConfig, err = found(err); err != nil {
		return Unknown, "", c.Explain(err)
	}
	_, err = core.Secrets(metav1.NamespaceSystem).Get(ctx, "cloudstack-secret", metav1.GetOptions{})
	if f.CloudStackSecret, err = found(err); err != nil {
		return Unknown, "", c.Explain(err)
	}
	d, by := Detect(f)
	return d, by, nil
}

// found reads the error of a Get: what may not be read counts as not there, since the distribution
// only chooses the words of a remedy.
func found(err error) (bool, error) {
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return false, nil
	default:
		return false, err
	}
}
