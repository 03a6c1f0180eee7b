// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/rights"
)

// ofTypes excludes the Secrets from which no program reads API keys: Helm releases and service account tokens, the
// largest and most frequent ones.
const ofTypes = "type!=helm.sh/release.v1,type!=" + string(corev1.SecretTypeServiceAccountToken)

// User is an object whose Pods refer to a Secret: a Deployment, a DaemonSet, ..., or a Pod without an owner.
type User struct {
	Kind      string        `json:"kind"`
	Namespace string        `json:"namespace"`
	Name      string        `json:"name"`
	Secret    string        `json:"secret"` // of the same namespace
	PodCount  int           `json:"pods"`
	Needs     string        `json:"needs"` // what it needs after the Secret has changed; set by callers
	Pods      []*corev1.Pod `json:"-"`
}

func (u *User) String() string { return u.Kind + " " + u.Namespace + "/" + u.Name }

// Copy is a Secret that contains one of the values.
type Copy struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Keys      []string `json:"keys"` // keys of its data that contain the value
	Users     []User   `json:"-"`
}

func (c *Copy) String() string { return c.Namespace + "/" + c.Name }

// Found has the users and the copies of a Secret's content. NotRead is what the caller may not list.
type Found struct {
	Users   []User   `json:"workloads"`
	Copies  []Copy   `json:"copies"`
	NotRead []string `json:"notLookedAt"`
}

// Users returns the users of the Secret, and copies of the values in Secrets of all namespaces. The key that the
// controller reads does not count as a copy. Without values, Users looks for no copies.
func (s *Secret) Users(ctx context.Context, kube kubernetes.Interface, values []string) (*Found, error) {
	namespace, secret, own := s.Namespace, s.Name, s.Key
	core := kube.CoreV1()
	pods, err := core.Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}

	f := &Found{Users: UsersOf(pods.Items, namespace, secret), Copies: []Copy{}, NotRead: []string{}}
	if len(values) == 0 {
		return f, nil
	}

	everywhere, err := rights.Request{Verb: "list", Resource: "secrets"}.Allowed(ctx, kube)
	if err != nil {
		return nil, err
	}

	in := metav1.NamespaceAll
	if !everywhere {
		in, f.NotRead = namespace, append(f.NotRead, "Secrets in namespaces other than "+namespace)
	}

	secrets, err := core.Secrets(in).List(ctx, metav1.ListOptions{FieldSelector: ofTypes})
	switch {
	case apierrors.IsForbidden(err):
		f.NotRead = append(f.NotRead, "Secrets in namespace "+namespace)
		return f, nil
	case err != nil:
		return nil, err
	}

	f.Copies = Copies(secrets.Items, values, func(s *corev1.Secret, key string) bool {
		return s.Namespace == namespace && s.Name == secret && key == own
	})
	for i := range f.Copies {
		c := &f.Copies[i]
		if c.Namespace == namespace && c.Name == secret {
			continue // another key of the Secret itself, which has the same users
		}
		pods, err := core.Pods(c.Namespace).List(ctx, metav1.ListOptions{})
		switch {
		case apierrors.IsForbidden(err):
			f.NotRead = append(f.NotRead, "Pods in namespace "+c.Namespace)
		case err != nil:
			return nil, err
		default:
			c.Users = UsersOf(pods.Items, c.Namespace, c.Name)
		}
	}

	return f, nil
}

// UsersOf returns the users of a Secret among these Pods, sorted. Pods that have ended are not counted.
func UsersOf(pods []corev1.Pod, namespace, secret string) []User {
	// In the JSON of a Pod, every volume and variable from a Secret has this form; image pull secrets do not.
	refers := regexp.MustCompile(`"[A-Za-z]*[sS]ecret(KeyRef|Ref)?":\{"(name|secretName)":"` +
		regexp.QuoteMeta(secret) + `"`)
	out := []User{}
	for _, p := range pods {
		spec, _ := json.Marshal(p.Spec) // never fails
		if p.Namespace != namespace || cluster.Ended(p.Status.Phase) || !refers.Match(spec) {
			continue
		}
		kind, name := cluster.OwnerOf(&p)
		at := slices.IndexFunc(out, func(o User) bool { return o.Kind == kind && o.Name == name })
		if at < 0 {
			at, out = len(out), append(out, User{Kind: kind, Namespace: namespace, Name: name, Secret: secret})
		}
		out[at].PodCount, out[at].Pods = out[at].PodCount+1, append(out[at].Pods, &p)
	}

	slices.SortFunc(out, func(a, b User) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// Copies returns the Secrets whose data contains one of the values, sorted. skip reports whether to ignore a key of a
// Secret.
func Copies(secrets []corev1.Secret, values []string, skip func(s *corev1.Secret, key string) bool) []Copy {
	out := []Copy{}
	for _, s := range secrets {
		c := Copy{Namespace: s.Namespace, Name: s.Name}
		for _, key := range slices.Sorted(maps.Keys(s.Data)) {
			contains := func(v string) bool { return v != "" && bytes.Contains(s.Data[key], []byte(v)) }
			if slices.ContainsFunc(values, contains) && !skip(&s, key) {
				c.Keys = append(c.Keys, key)
			}
		}
		if len(c.Keys) > 0 {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b Copy) int { return strings.Compare(a.String(), b.String()) })
	return out
}
