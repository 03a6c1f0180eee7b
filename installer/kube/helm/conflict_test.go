// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/kube"
	kubefake "helm.sh/helm/v3/pkg/kube/fake"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	restfake "k8s.io/client-go/rest/fake"

	"github.com/csccm/csccm/installer/engine/report"
)

// clusterRoleKube reports one existing ClusterRole as the only object of the release.
type clusterRoleKube struct {
	*kubefake.FailingKubeClient
	existing metav1.ObjectMeta
}

func (k *clusterRoleKube) Build(io.Reader, bool) (kube.ResourceList, error) {
	answer := rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}, ObjectMeta: k.existing}
	body, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	client := &restfake.RESTClient{
		NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
		GroupVersion:         rbacv1.SchemeGroupVersion,
		Client: restfake.CreateHTTPClient(func(*http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: http.StatusOK,
				Header:     http.Header{"Content-Type": {"application/json"}},
				Body:       io.NopCloser(bytes.NewReader(body)),
			}, nil
		}),
	}
	return kube.ResourceList{{
		Client: client,
		Mapping: &meta.RESTMapping{
			Resource:         schema.GroupVersionResource{Group: rbacv1.GroupName, Version: "v1", Resource: "clusterroles"},
			GroupVersionKind: rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
			Scope:            meta.RESTScopeRoot,
		},
		Name:   "r",
		Object: answer.DeepCopy(),
	}}, nil
}

func (f *fixture) withClusterRole(existing metav1.ObjectMeta) {
	configuration := f.configuration
	f.configuration = func() (*action.Configuration, error) {
		cfg, err := configuration()
		if err == nil {
			cfg.KubeClient = &clusterRoleKube{f.kube, existing}
		}
		return cfg, err
	}
}

// The error comes from Helm's own check, so that a change of its text is noticed.
func TestApplyWithForeignObject(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		existing metav1.ObjectMeta
		want     string
	}{
		"of no release": {
			metav1.ObjectMeta{Name: "r"},
			"exists and cannot be imported into the current release",
		},
		"of another release": {
			metav1.ObjectMeta{
				Name:        "r",
				Labels:      map[string]string{"app.kubernetes.io/managed-by": "Helm"},
				Annotations: map[string]string{"meta.helm.sh/release-name": "other", "meta.helm.sh/release-namespace": "cloud"},
			},
			`current value is "other"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.withClusterRole(tc.existing)
			_, err := f.Apply(t.Context(), request(t, nil))
			require.ErrorContains(t, err, tc.want)
			var e *report.Error
			require.ErrorAs(t, err, &e)
			require.Contains(t, e.Fix, "kubectl delete clusterrole r")
			_, err = f.Get(t.Context(), testName)
			require.ErrorIs(t, err, ErrReleaseNotFound, "nothing was stored")
		})
	}
}

func TestApplyAfterAFailedFirstInstall(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.withClusterRole(metav1.ObjectMeta{
		Name:        "r",
		Labels:      map[string]string{"app.kubernetes.io/managed-by": "Helm"},
		Annotations: map[string]string{"meta.helm.sh/release-name": testName, "meta.helm.sh/release-namespace": testNamespace},
	})
	f.kube.UpdateError = assert.AnError // Helm updates an object that already belongs to the release
	_, err := f.Apply(t.Context(), request(t, map[string]any{"clusterName": "wrong"}))
	require.ErrorIs(t, err, assert.AnError)
	assert.Equal(t, []string{"1 failed"}, f.statuses(t))

	f.kube.UpdateError = nil
	rel, err := f.Apply(t.Context(), request(t, nil))
	require.NoError(t, err)
	assert.Equal(t, []string{"1 superseded", "2 deployed"}, f.statuses(t))
	assert.NotContains(t, rel.Manifest, "--cluster-name", "the values of the failed attempt are ignored")
}
