// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/csccm/csccm/test/internal/must"
)

// restoreLimit bounds the removal of what a test created, even on a busy machine.
const restoreLimit = 15 * time.Minute

// baseline is the content of a new API server.
type baseline struct {
	client   kubernetes.Interface
	metadata metadata.Interface
	objects  contents
}

// contents is the metadata of all objects of an API server.
type contents map[object]*metav1.PartialObjectMetadata

// collection is the objects of one kind in one namespace.
type collection struct {
	schema.GroupVersionResource
	namespace string
}

// object identifies an object of the API server.
type object struct {
	collection
	name string
}

func (o object) String() string { return o.Resource + " " + o.namespace + "/" + o.name }

// unmanaged are the resources that the API server itself creates and deletes.
var unmanaged = []string{"apiservices", "servicecidrs", "ipaddresses"}

var namespaces = []string{"default", "kube-system", "kube-public", "kube-node-lease"}

// builtIn reports whether the API server creates the object at an unknown time after its start.
func builtIn(o object) bool {
	switch o.Resource {
	case "namespaces":
		return slices.Contains(namespaces, o.name)
	case "leases":
		return o.namespace == "kube-system" && strings.HasPrefix(o.name, "apiserver-")
	case "services":
		return o.namespace == "default" && o.name == "kubernetes"
	case "configmaps":
		return o.namespace == "kube-system" &&
			slices.Contains([]string{"extension-apiserver-authentication",
				"kube-apiserver-legacy-service-account-token-tracking"}, o.name)
	}
	return false
}

// newBaseline records the objects of an API server that no test has used.
func (p *Plane) newBaseline(ctx context.Context) (_ *baseline, err error) {
	defer must.Return(&err)
	config := must.Get(p.AdminConfig())
	config.WarningHandler = rest.NoWarnings{} // deprecated resources are listed too
	b := &baseline{client: must.Get(kubernetes.NewForConfig(config)), metadata: must.Get(metadata.NewForConfig(config))}
	// Tests need the built-in namespaces, which the API server creates after it reports that it is ready.
	must.OK(p.server.Ready(ctx, readyLimit, func(ctx context.Context) (err error) {
		for _, name := range namespaces {
			_, failed := b.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
			err = errors.Join(err, failed)
		}
		return err
	}))
	b.objects = b.list(ctx)
	return b, nil
}

// Objects returns the names of all objects of the cluster except Events and leases, which change all the time.
func (p *Plane) Objects(ctx context.Context) (_ map[string]bool, err error) {
	defer must.Return(&err)
	b := p.baseline
	if b == nil {
		b = must.Get(p.newBaseline(ctx))
	}
	names := map[string]bool{}
	for o := range b.list(ctx) {
		if o.Resource != "events" && o.Resource != "leases" {
			names[o.String()] = true
		}
	}
	return names, nil
}

// list returns all objects.
func (b *baseline) list(ctx context.Context) contents {
	all := contents{}
	for _, list := range must.Get(b.client.Discovery().ServerPreferredResources()) {
		gv := must.Get(schema.ParseGroupVersion(list.GroupVersion))
		for i := range list.APIResources {
			r := &list.APIResources[i]
			if !slices.Contains(r.Verbs, "list") ||
				!slices.Contains(r.Verbs, "delete") ||
				slices.Contains(unmanaged, r.Name) {
				continue
			}
			found, err := b.metadata.Resource(gv.WithResource(r.Name)).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue // its definition has just been deleted
			}
			must.OK(err)
			for i := range found.Items {
				m := &found.Items[i]
				all[object{collection{gv.WithResource(r.Name), m.Namespace}, m.Name}] = m
			}
		}
	}

	return all
}

// restore deletes everything that is not part of the baseline. No controller of Kubernetes may run meanwhile. It fails
// if an object of the baseline is missing or has other labels or annotations.
func (b *baseline) restore(ctx context.Context) (err error) {
	defer must.Return(&err)
	ctx, cancel := context.WithTimeout(ctx, restoreLimit)
	defer cancel()
	for policies := false; ; {
		all := b.list(ctx)
		extra, kept := map[collection][]object{}, map[collection]bool{}
		for o, has := range all {
			want, ok := b.objects[o]
			if !ok && !builtIn(o) {
				extra[o.collection] = append(extra[o.collection], o)
				continue
			}

			kept[o.collection] = true
			same := !ok || maps.Equal(want.Labels, has.Labels) && maps.Equal(want.Annotations, has.Annotations)
			must.Be(same || o.Resource == "leases", "%s has changed from %v to %v", o, want, has)
		}

		for o := range b.objects {
			// Events expire, and two resources show them.
			must.Be(all[o] != nil || o.Resource == "events", "%s is missing", o)
		}

		if len(extra) == 0 && policies {
			b.policiesForgotten(ctx)
		}

		if len(extra) == 0 {
			return nil
		}

		for _, c := range slices.SortedFunc(maps.Keys(extra),
			func(c, d collection) int { return order(c) - order(d) }) {
			policies = policies || strings.HasPrefix(c.Resource, "validatingadmissionpolic")
			must.OK(b.remove(ctx, extra[c], all, kept[c]))
		}
	}
}

// order returns the position of a collection in the order of deletion. Admission policies are first, because they may
// refuse changes of other objects. Definitions and namespaces are last, because they contain other objects.
func order(c collection) int {
	switch r := c.Resource; {
	case strings.HasPrefix(r, "validatingadmission"), strings.HasPrefix(r, "validatingwebhook"),
		strings.HasPrefix(r, "mutatingwebhook"):
		return 0
	case r == "customresourcedefinitions":
		return 2
	case r == "namespaces":
		return 3
	}
	return 1
}

// remove deletes objects of one collection. If othersStay is set, the collection has other objects, which are kept.
// The deleted objects may still exist for a while.
func (b *baseline) remove(ctx context.Context, objects []object, all contents, othersStay bool) error {
	c := objects[0].collection
	var api metadata.ResourceInterface = b.metadata.Resource(c.GroupVersionResource)
	if c.namespace != "" {
		api = b.metadata.Resource(c.GroupVersionResource).Namespace(c.namespace)
	}

	now, background := int64(0), metav1.DeletePropagationBackground
	deletion := metav1.DeleteOptions{GracePeriodSeconds: &now, PropagationPolicy: &background}
	namespace := c.Resource == "namespaces" // the API has no call that deletes all namespaces
	var errs []error
	if !othersStay && !namespace {
		errs = append(errs, api.DeleteCollection(ctx, deletion, metav1.ListOptions{}))
	}

	for _, o := range objects {
		if othersStay || namespace {
			errs = append(errs, api.Delete(ctx, o.name, deletion))
		}
		if len(all[o].Finalizers) > 0 {
			_, err := api.Patch(ctx, o.name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
				metav1.PatchOptions{})
			errs = append(errs, err)
		}
		if namespace {
			n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.name}}
			_, err := b.client.CoreV1().Namespaces().Finalize(ctx, n, metav1.UpdateOptions{})
			errs = append(errs, err)
		}
	}

	// A list may be older than a deletion, and an object such as an Event may be in the lists of two resources.
	return errors.Join(slices.DeleteFunc(errs,
		func(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) })...)
}

// policiesForgotten waits until the API server no longer applies the deleted admission policies. The API server learns
// about policies in the order of their changes, so it has forgotten them when it applies a policy that is newer than
// their deletion.
func (b *baseline) policiesForgotten(ctx context.Context) {
	name := fmt.Sprintf("csccm-test-%d", time.Now().UnixNano())
	admission := b.client.AdmissionregistrationV1()
	policies, bindings := admission.ValidatingAdmissionPolicies(), admission.ValidatingAdmissionPolicyBindings()
	policy, binding := &admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}
	must.OK(json.Unmarshal([]byte(`{"spec": {"validations": [{"expression": "false"}], "matchConstraints": {"resourceRules": [
		{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
		"resourceNames": ["`+name+`"]}]}}}`), policy))
	must.OK(json.Unmarshal([]byte(`{"spec": {"policyName": "`+name+`", "validationActions": ["Deny"]}}`), binding))
	policy.Name, binding.Name = name, name
	must.Get(policies.Create(ctx, policy, metav1.CreateOptions{}))
	must.Get(bindings.Create(ctx, binding, metav1.CreateOptions{}))
	must.OK(wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		denied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := b.client.CoreV1().ConfigMaps("default").Create(ctx, denied,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsInvalid(err) || apierrors.IsForbidden(err), nil
	}))

	must.OK(errors.Join(bindings.Delete(ctx, name, metav1.DeleteOptions{}),
		policies.Delete(ctx, name, metav1.DeleteOptions{})))
}
