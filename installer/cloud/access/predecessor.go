// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/report"
)

// OfPredecessor returns the cloud-config of the first predecessor that has one. It looks in the Secrets that the
// predecessor mounts, then in those of the two providers' manifests. from names the Secret and the API URL, without
// secret data.
func OfPredecessor(
	ctx context.Context, kube kubernetes.Interface, predecessors []family.Predecessor,
) (text []byte, from string, err error) {
	problem := "no Secret of another provider holds a cloud-config: neither those that it mounts, nor cloud-config " +
		"or cloudstack-secret"
	for _, p := range predecessors {
		if p.Pod == nil {
			continue
		}

		var names []string
		for _, v := range p.Pod.Volumes {
			if v.Secret != nil {
				names = append(names, v.Secret.SecretName)
			}
		}

		for _, name := range append(names, "cloud-config", SecretName) {
			s, err := kube.CoreV1().Secrets(p.Namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return nil, "", err
			}
			for _, key := range slices.Sorted(maps.Keys(s.Data)) {
				text := s.Data[key]
				cfg, err := parse(text)
				switch {
				case err == nil:
					return text, fmt.Sprintf("Secret %s/%s of %s, API %s", p.Namespace, name, &p, cfg.APIURL), nil
				case bytes.Contains(bytes.ToLower(text), []byte("api-url")):
					problem = fmt.Sprintf("Secret %s/%s of %s: %v", p.Namespace, name, &p, err)
				}
			}
		}
	}

	return nil, "", report.Usage("give --cloud-config FILE, or --api-key-file and --secret-key-file", "%s", problem)
}
