// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/installer/report"
)

func parse(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	list, err := Parse(manifest)
	require.NoError(t, err)
	require.Len(t, list, 1)
	return &list[0]
}

func TestLines(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		before, after string
		want          []string
	}{
		"fields of the server are left out": {
			"{kind: ConfigMap, metadata: {name: a, uid: x, generation: 1}, status: {a: 1}}",
			"{kind: ConfigMap, metadata: {name: a, uid: y, generation: 2}, status: {a: 2}}", nil,
		},
		"values": {
			"{kind: Deployment, spec: {replicas: 1, paused: true}}",
			"{kind: Deployment, spec: {replicas: 2, template: {x: {z: true}}}}",
			[]string{"- spec.paused: true", "spec.replicas: 1 -> 2", "+ spec.template.x.z: true"},
		},
		"keys with dots": {
			`{kind: A, metadata: {labels: {app.kubernetes.io/version: v1}}}`,
			`{kind: A, metadata: {labels: {app.kubernetes.io/version: v2}}}`,
			[]string{`metadata.labels[app.kubernetes.io/version]: "v1" -> "v2"`},
		},
		"arguments are words": {
			"{kind: A, args: [--a=1, --b=2]}", "{kind: A, args: [--b=2, --c=3]}",
			[]string{`- args: "--a=1"`, `+ args: "--c=3"`},
		},
		"containers by name": {
			"{kind: A, c: [{name: x, image: i}, {name: z, image: j}]}", "{kind: A, c: [{name: z, image: k}]}",
			[]string{`- c[x].image: "i"`, `- c[x].name: "x"`, `c[z].image: "j" -> "k"`},
		},
		"rules by position": {
			"{kind: A, rules: [{verbs: [get]}]}", "{kind: A, rules: [{verbs: [get, list]}, {verbs: [put]}]}",
			[]string{`+ rules[0].verbs: "list"`, `+ rules[1].verbs: "put"`},
		},
		"a Secret": {
			"{kind: Secret, data: {a: b2xkLWNhbmFyeQ==}, stringData: {x: canary}}",
			"{kind: Secret, data: {a: canary, b: canary}}",
			[]string{"data.a: *** -> ***", "+ data.b: ***", "- stringData.x: ***"},
		},
		"environment": {
			"{kind: A, env: [{name: API_KEY, value: canary}, {name: LEVEL, value: '1'}]}",
			"{kind: A, env: [{name: API_KEY, value: canary2}, {name: LEVEL, value: '2'}]}",
			[]string{"env[API_KEY].value: *** -> ***", `env[LEVEL].value: "1" -> "2"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const head = "# no JSON\n{apiVersion: v1, "
			got := Lines(parse(t, head+tc.before[1:]), parse(t, head+tc.after[1:]))
			require.ElementsMatch(t, tc.want, got)
			require.NotContains(t, strings.Join(got, "\n"), "canary")
		})
	}
}

const (
	configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '1', z: '1'}\n"
	another   = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"
)

func TestManifests(t *testing.T) {
	t.Parallel()
	live := &corev1.ConfigMap{}
	live.APIVersion, live.Kind = "v1", "ConfigMap"
	live.Namespace, live.Name, live.Data = "kube-system", "a", map[string]string{"x": "1", "z": "1", "other": "kept"}
	fake := dynamicfake.NewSimpleDynamicClient(scheme.Scheme, live)
	fake.PrependReactor("patch", "configmaps", func(a ktesting.Action) (bool, runtime.Object, error) {
		patch, ok := a.(ktesting.PatchActionImpl)
		require.True(t, ok)
		require.Equal(t, types.StrategicMergePatchType, patch.PatchType)
		before, err := json.Marshal(live)
		require.NoError(t, err)
		after, err := strategicpatch.StrategicMergePatch(before, patch.Patch, corev1.ConfigMap{})
		require.NoError(t, err)
		var o unstructured.Unstructured
		require.NoError(t, json.Unmarshal(after, &o.Object))
		return true, &o, nil
	})
	c := &Client{Dynamic: fake, Namespace: "kube-system"}

	wanted := strings.Replace(strings.Replace(configMap, ", z: '1'", "", 1), "x: '1'", "x: '2'", 1)
	changes, err := c.Manifests(t.Context(), configMap+"---\n"+another,
		"# a comment\n---\n"+wanted+"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n")
	require.NoError(t, err)
	require.Equal(t, "a", changes[0].Live.GetName())
	changes[0].Live = nil
	require.Equal(t, []Change{
		{
			Kind:      "ConfigMap",
			Namespace: "kube-system",
			Name:      "a",
			Action:    Update,
			Lines:     []string{`data.x: "1" -> "2"`, `- data.z: "1"`},
		},
		{Kind: "ConfigMap", Namespace: "kube-system", Name: "c", Action: Create},
		{Kind: "ConfigMap", Name: "b", Action: Delete},
	}, changes)
	for _, a := range fake.Actions() {
		switch a := a.(type) {
		case ktesting.PatchActionImpl:
			require.Equal(t, []string{"All"}, a.PatchOptions.DryRun)
		case ktesting.CreateActionImpl:
			require.Equal(t, []string{"All"}, a.CreateOptions.DryRun)
		default:
			require.Equal(t, "get", a.GetVerb())
		}
	}
	require.NoError(t, Refused(changes))

	changes, err = c.Manifests(t.Context(), configMap, configMap)
	require.NoError(t, err)
	require.Equal(t, Keep, changes[0].Action, "another's key is no difference: %v", changes[0].Lines)
}

func TestRefused(t *testing.T) {
	t.Parallel()
	fake := dynamicfake.NewSimpleDynamicClient(scheme.Scheme)
	fake.PrependReactor("create", "configmaps", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "a", nil)
	})
	// The API server has no such kind.
	fake.PrependReactor("create", "stranges", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewGenericServerResponse(http.StatusNotFound, "create", schema.GroupResource{}, "",
			"", 0, true)
	})
	c := &Client{Dynamic: fake, Namespace: "kube-system"}
	changes, err := c.Manifests(t.Context(), "",
		configMap+"---\napiVersion: x/v1\nkind: Strange\nmetadata: {name: s}\n")
	require.NoError(t, err)
	err = Refused(changes)
	require.ErrorContains(t, err, "nothing was changed: the API server refuses ConfigMap kube-system/a")
	require.ErrorContains(t, err, "and 1 more")
	var e *report.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, 3, e.ExitCode())
	require.Contains(t, changes[1].Problem, "no kind Strange")

	// The namespace of a release is created before its objects.
	fake = dynamicfake.NewSimpleDynamicClient(scheme.Scheme)
	fake.PrependReactor("create", "configmaps", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "new")
	})
	c = &Client{Dynamic: fake, Namespace: "new"}
	changes, err = c.Manifests(t.Context(), "", configMap)
	require.NoError(t, err)
	require.NoError(t, Refused(changes))

	// The roles of the release's bindings are also created before the bindings.
	fake.PrependReactor("create", "clusterrolebindings", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{
			Group:    "rbac.authorization.k8s.io",
			Resource: "clusterroles",
		}, "new")
	})
	changes, err = c.Manifests(t.Context(), "",
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: new}\n")
	require.NoError(t, err)
	require.NoError(t, Refused(changes))
	require.Equal(t, Create, changes[0].Action)
}

// Deleted objects are found without a dry run of their creation, because a reader may not create objects.
func TestDeletedObjects(t *testing.T) {
	t.Parallel()
	fake := dynamicfake.NewSimpleDynamicClient(scheme.Scheme, &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "b"},
	})
	c := &Client{Dynamic: fake, Release: "r", Namespace: "kube-system"}
	changes, err := c.Manifests(t.Context(), configMap+"---\n"+another, configMap+"---\n"+another)
	require.NoError(t, err)
	require.Equal(t, "1 to create, 1 as wanted", Summary(changes))
	require.False(t,
		slices.ContainsFunc(fake.Actions(), func(a ktesting.Action) bool { return a.GetVerb() == "create" }))
	_, err = c.Manifests(t.Context(), "", configMap)
	require.NoError(t, err)
	made, ok := fake.Actions()[len(fake.Actions())-1].(ktesting.CreateActionImpl)
	require.True(t, ok)
	require.Contains(t, fmt.Sprint(made.Object), "app.kubernetes.io/managed-by:Helm")
	require.Contains(t, fmt.Sprint(made.Object), "meta.helm.sh/release-name:r")
}
