// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/kubelet"
)

// CKS decides CKS-001.
func CKS(d Distribution, pods []corev1.Pod, kubelets []kubelet.NodeVerdict) Finding {
	if d.Name != cluster.CKS {
		return Passf("distribution: %s (%s)", d.Name, d.By).With("distribution", string(d.Name))
	}
	named := slices.ContainsFunc(pods, func(p corev1.Pod) bool { return strings.Contains(p.Name, "cloud-controller-manager") })
	var without []Object
	for _, v := range kubelets {
		if v.Verdict == kubelet.NotExternal {
			without = append(without, Object{Kind: "Node", Name: v.Node, Message: "its kubelet is not external; CKS adds nodes so"})
		}
	}
	f := Problemf("the cluster was made by CKS (%s)", d.By)
	switch {
	case !named && len(pods) > 0:
		f.Message += ": no Pod of the controller is named cloud-controller-manager, so CKS will install its own provider again"
	case !named:
		f.Message += ": it installs its own provider again as long as no Pod is named cloud-controller-manager"
	case len(without) == 0:
		return Passf("made by CKS; its provider stays away, and all kubelets are external").With("distribution", string(d.Name))
	}
	return f.About(without...).With("distribution", string(d.Name))
}

// Distribution says how the cluster was made, and by what we know it.
type Distribution struct {
	Name cluster.Distribution
	By   string
}
