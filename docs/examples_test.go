// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// decode reads each document of a manifest as the type that it names, and refuses fields that the type lacks.
func decode(t *testing.T, name string, r io.Reader) []runtime.Object {
	t.Helper()
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{Yaml: true, Strict: true})
	documents := utilyaml.NewYAMLReader(bufio.NewReader(r))
	var out []runtime.Object
	for {
		raw, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err, name)
		object, _, err := strict.Decode(raw, nil, nil)
		require.NoError(t, err, "%s, document %d", name, len(out)+1)
		out = append(out, object)
	}
}

// serves checks a Service as the controller would, without a cluster.
func serves(t *testing.T, name string, svc *corev1.Service) {
	t.Helper()
	for key := range svc.Annotations {
		if !strings.HasPrefix(key, annotation.Prefix) {
			continue
		}
		known := false
		for _, d := range annotation.Table() {
			known = known || d.Name == key && d.Writer == annotation.ByUser
		}
		require.True(t, known, "%s: %s is no annotation that a user sets", name, key)
	}
	for i := range svc.Spec.Ports {
		svc.Spec.Ports[i].NodePort = int32(30000 + i) // as the API server gives them
	}
	_, err := annotation.Parse(svc)
	require.NoError(t, err, name)
	if refusal := plan.CheckService(loadbalancer.ServiceOf(svc)); refusal != nil {
		t.Errorf("%s: Service %s is refused: %v", name, svc.Name, refusal)
	}
}

func TestExamplesAreValid(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("examples", "*.yaml"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 10)
	for _, file := range files {
		f, err := os.Open(file)
		require.NoError(t, err)
		balanced := 0
		for _, object := range decode(t, file, f) {
			if svc, ok := object.(*corev1.Service); ok && svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
				serves(t, file, svc)
				balanced++
			}
		}
		require.NoError(t, f.Close())
		require.Positive(t, balanced, "%s shows no Service of type LoadBalancer", file)
	}
}

// TestServicesOfThePages: a Service in a page's YAML is as valid as an example.
func TestServicesOfThePages(t *testing.T) {
	t.Parallel()
	_, all, _ := read(t)
	for _, p := range all {
		for _, c := range p.Code {
			if c.Language != "yaml" || !strings.Contains(c.Text, "\nkind: Service\n") {
				continue
			}
			for _, object := range decode(t, p.Path, strings.NewReader(c.Text)) {
				if svc, ok := object.(*corev1.Service); ok {
					serves(t, p.Path, svc)
				}
			}
		}
	}
}
