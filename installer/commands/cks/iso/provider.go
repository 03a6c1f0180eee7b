// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package iso

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/helm"
)

// The Secret with the credentials, as CKS makes it. It keeps one that is there.
const secretName, secretKey = "cloudstack-secret", "cloud-config" //nolint:gosec // names

// Provider renders provider.yaml: the chart, with nodes that joined without the kubelet's flag initialised.
func Provider(ctx context.Context, chart *helm.Chart, values map[string]any, kubeVersion string) (string, error) {
	request := helm.ApplyRequest{
		Name: engine.DefaultRelease, Chart: chart, KubeVersion: kubeVersion,
		Values: helm.MergeValues(map[string]any{"adoptNodes": true}, values),
	}
	manifest, err := helm.Template(ctx, metav1.NamespaceSystem, request)
	if err != nil {
		return "", err
	}
	objects, err := diff.Parse(manifest)
	if err != nil {
		return "", fmt.Errorf("rendered manifest: %w", err)
	}
	if err := fits(objects); err != nil {
		return "", err
	}
	return owned(objects, request.Name)
}

// owned returns a manifest whose objects a Helm release takes over as its own: CKS never applies a newer provider, so
// "csccm install" must be able to begin with what CKS applied.
func owned(objects []unstructured.Unstructured, release string) (string, error) {
	var b strings.Builder
	for i := range objects {
		annotations := objects[i].GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations["meta.helm.sh/release-name"] = release
		annotations["meta.helm.sh/release-namespace"] = metav1.NamespaceSystem
		objects[i].SetAnnotations(annotations)
		body, err := yaml.Marshal(objects[i].Object)
		if err != nil {
			return "", err
		}
		b.WriteString("---\n")
		b.Write(body)
	}
	return b.String(), nil
}

// fits returns an error if the controller of a manifest would not start as CKS applies it. The chart itself refuses a name by
// which CKS would not see the controller.
func fits(objects []unstructured.Unstructured) error {
	controllers := 0
	for i := range objects {
		o := &objects[i]
		spec, is := podSpec(o)
		if !is {
			continue
		}
		controllers++
		switch {
		case o.GetNamespace() != metav1.NamespaceSystem:
			return report.Usage(fmt.Sprintf("%s %s is in namespace %s", o.GetKind(), o.GetName(), o.GetNamespace()), "leave it in kube-system, where CKS makes the Secret "+secretName)
		case !mounts(&spec):
			return report.Usage(fmt.Sprintf("%s %s does not use key %s of Secret %s, the one that CKS makes", o.GetKind(), o.GetName(), secretKey, secretName),
				"leave out the chart value existingSecret")
		}
	}
	if controllers == 0 {
		return report.Usage("the chart renders no Deployment or DaemonSet", "name csccm's chart with --chart, or none")
	}
	return nil
}

func podSpec(o *unstructured.Unstructured) (spec corev1.PodSpec, is bool) {
	raw, is, _ := unstructured.NestedMap(o.Object, "spec", "template", "spec")
	return spec, is && runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &spec) == nil
}

func mounts(spec *corev1.PodSpec) bool {
	for _, v := range spec.Volumes {
		if v.Secret == nil || v.Secret.SecretName != secretName {
			continue
		}
		if len(v.Secret.Items) == 0 {
			return true
		}
		for _, item := range v.Secret.Items {
			if item.Key == secretKey {
				return true
			}
		}
	}
	return false
}
