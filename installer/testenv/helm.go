// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"encoding/json"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/helm"
)

// KubeVersion is the version of the fake cluster.
const KubeVersion = "v1.37.1"

// Helm is a fake that stores one release in memory.
type Helm struct {
	Kept    []helm.Release // newest first
	Applied int            // number of calls of Apply
	Err     error          // error that Apply returns
	Render  bool           // render the chart; otherwise a manifest is only the chart's version and values
	Tests   []string       // manifests of the chart's tests
	// Changed changes the cluster as Helm would for a release; the release is nil after Uninstall.
	Changed func(ctx context.Context, r *helm.Release) error
}

// Release returns the release; nil if there is none.
func (h *Helm) Release() *helm.Release {
	if len(h.Kept) == 0 {
		return nil
	}
	return &h.Kept[0]
}

// History implements engine.Helm.
func (h *Helm) History(context.Context, string) ([]helm.Release, error) { return h.Kept, nil }

// Apply implements engine.Helm.
func (h *Helm) Apply(ctx context.Context, r helm.ApplyRequest) (*helm.Release, error) {
	h.Applied++
	if h.Err != nil {
		return nil, h.Err
	}

	manifest, err := h.Template(ctx, r)
	if err != nil {
		return nil, err
	}

	return h.push(ctx, helm.Release{
		Name:         r.Name,
		Namespace:    Namespace,
		ChartVersion: r.Chart.Version(),
		AppVersion:   r.Chart.AppVersion(),
		Values:       r.Values,
		Decided:      r.Decided,
		Manifest:     manifest,
		Tests:        h.Tests,
	})
}

// Rollback implements engine.Helm.
func (h *Helm) Rollback(ctx context.Context, _ string, revision int) (*helm.Release, error) {
	for _, r := range h.Kept {
		if r.Revision == revision {
			return h.push(ctx, r)
		}
	}
	return nil, helm.ErrReleaseNotFound
}

// NeverRan implements engine.Helm.
func (h *Helm) NeverRan(_ context.Context, _ string, revision int) error {
	for i := range h.Kept {
		h.Kept[i].NeverRan = h.Kept[i].NeverRan || h.Kept[i].Revision == revision
	}
	return nil
}

// push adds a revision, whose status is failed if Changed returns an error.
func (h *Helm) push(ctx context.Context, r helm.Release) (*helm.Release, error) {
	r.Revision, r.Status, r.NeverRan = 1, "deployed", false
	if was := h.Release(); was != nil {
		r.Revision = was.Revision + 1
	}

	h.Kept = append([]helm.Release{r}, h.Kept...)
	if h.Changed != nil {
		if err := h.Changed(ctx, h.Release()); err != nil {
			h.Release().Status = "failed"
			return nil, err
		}
	}

	for i := range h.Kept[1:] {
		if was := &h.Kept[i+1]; was.Deployed() {
			was.Status = "superseded"
		}
	}

	kept := *h.Release()
	return &kept, nil
}

// Uninstall implements engine.Helm.
func (h *Helm) Uninstall(ctx context.Context, _ string) error {
	h.Kept = nil
	if h.Changed == nil {
		return nil
	}
	return h.Changed(ctx, nil)
}

// Template implements engine.Helm.
func (h *Helm) Template(ctx context.Context, r helm.ApplyRequest) (string, error) {
	if h.Render {
		return helm.Template(ctx, Namespace, helm.ApplyRequest{
			Name:        r.Name,
			Chart:       r.Chart,
			Values:      r.Values,
			KubeVersion: KubeVersion,
			Tests:       r.Tests,
		})
	}

	values := r.Values
	if len(values) == 0 {
		values = map[string]any{}
	}

	body, err := json.Marshal(values)
	manifest := "manifest " + r.Chart.Version() + string(body)
	if r.Tests {
		manifest = strings.Join(append([]string{manifest}, h.Tests...), "\n---\n")
	}

	return manifest, err
}

// Deployment returns the Deployment of the release, with all Pods available.
func Deployment(replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:  Namespace,
			Name:       "cloudstack-cloud-controller-manager",
			Labels:     Labels,
			Generation: 1,
		},

		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: Labels},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{
					{Name: "cloud-controller-manager", Args: []string{"--leader-elect=true"}},
				},
			}},
		},

		Status: appsv1.DeploymentStatus{
			ObservedGeneration: 1,
			Replicas:           replicas,
			UpdatedReplicas:    replicas,
			AvailableReplicas:  replicas,
			ReadyReplicas:      replicas,
		},
	}
}

var _ engine.Helm = (*Helm)(nil)
