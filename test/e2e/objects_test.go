// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/diff"
	yamlreader "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	discoverymemory "k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"
)

// objects are those of any kind, as rendered and as the API server has them.
type objects struct {
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	discovery discovery.CachedDiscoveryInterface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
	heard     *heard
}

// heard are the API server's warnings.
type heard struct {
	mu  sync.Mutex
	all []string
}

func (h *heard) HandleWarningHeader(_ int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, text)
}

func newObjects(t *testing.T, config *rest.Config) objects {
	t.Helper()
	o := objects{heard: &heard{}}
	strict, quiet := rest.CopyConfig(config), rest.CopyConfig(config)
	strict.WarningHandler, quiet.WarningHandler = o.heard, rest.NoWarnings{} // what is listed may be deprecated
	client, err := discovery.NewDiscoveryClientForConfig(quiet)
	if err == nil {
		o.dynamic, err = dynamic.NewForConfig(strict)
	}
	if err == nil {
		o.metadata, err = metadata.NewForConfig(quiet)
	}
	if err != nil {
		t.Fatal(err)
	}
	o.discovery = discoverymemory.NewMemCacheClient(client)
	o.mapper = restmapper.NewDeferredDiscoveryRESTMapper(o.discovery)
	return o
}

// forget makes it see kinds that are new.
func (o *objects) forget() { o.mapper.Reset() }

// said are the API server's warnings since the last call.
func (o *objects) said() []string {
	o.heard.mu.Lock()
	defer o.heard.mu.Unlock()
	all := o.heard.all
	o.heard.all = nil
	return all
}

// documents are the objects of a manifest, in which no key may be there twice.
func documents(t *testing.T, manifest string) (all []*unstructured.Unstructured) {
	t.Helper()
	for reader := yamlreader.NewYAMLReader(bufio.NewReader(strings.NewReader(manifest))); ; {
		raw, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		object := map[string]any{}
		if err := yaml.UnmarshalStrict(raw, &object); err != nil {
			t.Fatalf("%v in\n%s", err, raw)
		}
		if len(object) == 0 {
			continue // comments alone
		}
		json, err := yaml.YAMLToJSON(raw)
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(json); err != nil {
			t.Fatal(err)
		}
		all = append(all, u)
	}
}

// title names an object for people.
func title(u *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", u.GroupVersionKind().GroupKind(), u.GetNamespace(), u.GetName())
}

func (o *objects) of(u *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gvk := u.GroupVersionKind()
	mapping, err := o.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return o.dynamic.Resource(mapping.Resource), nil
	}
	if u.GetNamespace() == "" {
		u.SetNamespace(metav1.NamespaceSystem) // the release's
	}
	return o.dynamic.Resource(mapping.Resource).Namespace(u.GetNamespace()), nil
}

func (o *objects) create(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	api, err := o.of(u)
	if err == nil {
		_, err = api.Create(t.Context(), u, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	}
	if err != nil {
		t.Fatalf("%s: %v", title(u), err)
	}
}

// wouldCreate asks the API server for a strict opinion.
func (o *objects) wouldCreate(ctx context.Context, u *unstructured.Unstructured) error {
	api, err := o.of(u)
	if err == nil {
		_, err = api.Create(ctx, u, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}})
	}
	if err != nil {
		return fmt.Errorf("%s: %w", title(u), err)
	}
	return nil
}

// asRendered asks the API server, which is to be strict about fields, what the object would be if it were replaced by
// the rendered one, and compares that with what it is.
func (o *objects) asRendered(ctx context.Context, rendered *unstructured.Unstructured) error {
	rendered = rendered.DeepCopy()
	api, err := o.of(rendered)
	if err != nil {
		return fmt.Errorf("%s: %w", title(rendered), err)
	}
	for {
		live, err := api.Get(ctx, rendered.GetName(), metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("%s: %w", title(rendered), err)
		}
		rendered.SetResourceVersion(live.GetResourceVersion())
		would, err := api.Update(ctx, rendered, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsConflict(err) {
			continue // a controller of Kubernetes wrote its status meanwhile
		}
		if err != nil {
			return fmt.Errorf("%s: %w", title(rendered), err)
		}
		if want, have := bare(would), bare(live); !reflect.DeepEqual(want, have) {
			return fmt.Errorf("%s is not as rendered:\n%s", title(rendered), diff.Diff(want, have))
		}
		return nil
	}
}

// bare is an object without what the API server, Helm and Kubernetes' controllers write.
func bare(u *unstructured.Unstructured) map[string]any {
	u = u.DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"} {
		unstructured.RemoveNestedField(u.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(u.Object, "status")
	u.SetLabels(without(u.GetLabels(), "app.kubernetes.io/managed-by"))
	u.SetAnnotations(without(u.GetAnnotations(), "meta.helm.sh/", "deployment.kubernetes.io/", "deprecated.daemonset."))
	return u.Object
}

func without(m map[string]string, prefixes ...string) map[string]string {
	m = maps.Clone(m)
	maps.DeleteFunc(m, func(key, _ string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
	})
	if len(m) == 0 {
		return nil // no map, not an empty one
	}
	return m
}

func (o *objects) gone(ctx context.Context, u *unstructured.Unstructured) error {
	api, err := o.of(u)
	if err != nil {
		return err
	}
	switch _, err = api.Get(ctx, u.GetName(), metav1.GetOptions{}); {
	case err == nil:
		return errors.New("it is still there")
	case apierrors.IsNotFound(err):
		return nil
	default:
		return err
	}
}

// established is nil when the API server serves the kind that a definition defines.
func (o *objects) established(ctx context.Context, definition *unstructured.Unstructured) error {
	api, err := o.of(definition)
	if err != nil {
		return err
	}
	live, err := api.Get(ctx, definition.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	conditions, _, err := unstructured.NestedSlice(live.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
			return nil
		}
	}
	return errors.Join(err, fmt.Errorf("it has the conditions %v", conditions))
}

// inventory names all objects of the cluster but Events and what Kubernetes makes anew by itself all the time.
func (o *objects) inventory(t *testing.T) map[string]bool {
	t.Helper()
	lists, err := o.discovery.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			if !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "delete") || slices.Contains([]string{"events", "leases"}, r.Name) {
				continue
			}
			found, err := o.metadata.Resource(gv.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatalf("list %s: %v", r.Name, err)
			}
			for i := range found.Items {
				all[fmt.Sprintf("%s.%s %s/%s", r.Name, gv.Group, found.Items[i].Namespace, found.Items[i].Name)] = true
			}
		}
	}
	return all
}
