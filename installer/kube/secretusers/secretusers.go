// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package secretusers finds what uses the content of a Secret: the Pods that refer to it, by their owner, and other
// Secrets that hold a copy. It is pure: the objects are listed by the caller.
package secretusers

import (
	"bytes"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Ways in which a Pod reads a Secret.
const (
	ByVolume  = "volume"  // the kubelet updates the files; whether the program reads them again is unknown
	BySubPath = "subPath" // the file never changes
	ByEnv     = "env"     // the variable never changes
)

// User is the owner of Pods that refer to a Secret: a Deployment, a DaemonSet, ... or a Pod without an owner.
type User struct {
	Kind      string   `json:"kind"`
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Secret    string   `json:"secret"` // of the same namespace
	Reads     []string `json:"reads"`  // volume, subPath, env
	Pods      []Pod    `json:"-"`
}

// Pod is a Pod of a User.
type Pod struct {
	*corev1.Pod
	Containers []string // that refer to the Secret
}

func (u *User) String() string { return u.Kind + " " + u.Namespace + "/" + u.Name }

// Of returns the users of a Secret by its Pods, sorted. Pods that have ended are no users.
func Of(pods []corev1.Pod, namespace, secret string) []User {
	var out []User
	for i := range pods {
		p := &pods[i]
		if p.Namespace != namespace || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		reads, containers := references(&p.Spec, secret)
		if len(reads) == 0 {
			continue
		}
		u := User{Namespace: p.Namespace, Secret: secret}
		u.Kind, u.Name = owner(p)
		at := slices.IndexFunc(out, func(o User) bool { return o.Kind == u.Kind && o.Name == u.Name })
		if at < 0 {
			at, out = len(out), append(out, u)
		}
		o := &out[at]
		o.Pods = append(o.Pods, Pod{p, containers})
		o.Reads = append(o.Reads, reads...)
		slices.Sort(o.Reads)
		o.Reads = slices.Compact(o.Reads)
	}
	slices.SortFunc(out, func(a, b User) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// owner returns what created a Pod, and would create it again.
func owner(p *corev1.Pod) (kind, name string) {
	c := metav1.GetControllerOf(p)
	if c == nil || c.Kind == "Node" { // a static Pod
		return "Pod", p.Name
	}
	// A Deployment names its ReplicaSets by its own name and the hash of the template.
	if hash := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; c.Kind == "ReplicaSet" && hash != "" {
		if name, ok := strings.CutSuffix(c.Name, "-"+hash); ok {
			return "Deployment", name
		}
	}
	return c.Kind, c.Name
}

// references returns how a Pod reads a Secret, and which of its containers do.
func references(spec *corev1.PodSpec, secret string) (reads, containers []string) {
	volumes := map[string]bool{}
	for i := range spec.Volumes {
		if mounts(&spec.Volumes[i], secret) {
			volumes[spec.Volumes[i].Name] = true
			reads = append(reads, ByVolume)
		}
	}
	each := func(name string, env []corev1.EnvVar, from []corev1.EnvFromSource, mounted []corev1.VolumeMount) {
		var ways []string
		if slices.ContainsFunc(env, func(v corev1.EnvVar) bool {
			return v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil && v.ValueFrom.SecretKeyRef.Name == secret
		}) || slices.ContainsFunc(from, func(f corev1.EnvFromSource) bool { return f.SecretRef != nil && f.SecretRef.Name == secret }) {
			ways = append(ways, ByEnv)
		}
		for i := range mounted {
			switch m := &mounted[i]; {
			case !volumes[m.Name]:
			case m.SubPath != "" || m.SubPathExpr != "":
				ways = append(ways, BySubPath)
			default:
				ways = append(ways, ByVolume)
			}
		}
		if len(ways) > 0 {
			reads, containers = append(reads, ways...), append(containers, name)
		}
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		each(c.Name, c.Env, c.EnvFrom, c.VolumeMounts)
	}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		each(c.Name, c.Env, c.EnvFrom, c.VolumeMounts)
	}
	for i := range spec.EphemeralContainers {
		c := &spec.EphemeralContainers[i]
		each(c.Name, c.Env, c.EnvFrom, c.VolumeMounts)
	}
	return reads, containers
}

func mounts(v *corev1.Volume, secret string) bool {
	if v.Secret != nil {
		return v.Secret.SecretName == secret
	}
	return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
		return s.Secret != nil && s.Secret.Name == secret
	})
}

// Copy is a Secret that holds a value.
type Copy struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Keys      []string `json:"keys"` // of its data, whose content has the value
}

func (c *Copy) String() string { return c.Namespace + "/" + c.Name }

// Copies returns the Secrets that hold one of some values anywhere in their data, sorted. skip names data that does not
// count; it may be nil.
func Copies(secrets []corev1.Secret, values []string, skip func(s *corev1.Secret, key string) bool) []Copy {
	var out []Copy
	for i := range secrets {
		s := &secrets[i]
		c := Copy{Namespace: s.Namespace, Name: s.Name}
		for key, content := range s.Data {
			holds := slices.ContainsFunc(values, func(v string) bool { return v != "" && bytes.Contains(content, []byte(v)) })
			if holds && (skip == nil || !skip(s, key)) {
				c.Keys = append(c.Keys, key)
			}
		}
		if len(c.Keys) > 0 {
			slices.Sort(c.Keys)
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b Copy) int { return strings.Compare(a.String(), b.String()) })
	return out
}
