// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/pkg/tenancy"
)

const flag = "--tenancy"

// PolicyOf returns the policy of a controller that is started with these words. set is false where they have no
// --tenancy: then a controller that knows the flag works with the default policy, and an older one with none.
func PolicyOf(words []string) (p tenancy.Policy, set bool, err error) {
	text := ""
	for i, w := range words {
		name, value, joined := strings.Cut(w, "=")
		if name != flag {
			continue
		}
		if !joined && i+1 < len(words) {
			value = words[i+1]
		}
		text, set = value, true
	}
	if strings.TrimSpace(text) == "" {
		return tenancy.Default(), set, nil
	}
	p, err = tenancy.Parse([]byte(text))
	return p, set, err
}

// WordsOfManifest returns the words of the first workload of a rendered chart that has a policy; nil without one.
func WordsOfManifest(manifest string) []string {
	for document := range strings.SplitSeq(manifest, "\n---") {
		var d appsv1.Deployment // what is read of it a Deployment and a DaemonSet have alike
		if yaml.Unmarshal([]byte(document), &d) != nil || d.Kind != "Deployment" && d.Kind != "DaemonSet" {
			continue
		}
		words := Words(&d.Spec.Template.Spec)
		if _, set, err := PolicyOf(words); set || err != nil {
			return words
		}
	}
	return nil
}

// Words returns the commands and arguments of a Pod's containers.
func Words(pod *corev1.PodSpec) []string {
	var out []string
	for i := range pod.Containers {
		out = append(append(out, pod.Containers[i].Command...), pod.Containers[i].Args...)
	}
	return out
}
