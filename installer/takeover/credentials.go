// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

// FindCredentials reads the cloud-config of the first predecessor that has one: in the Secrets that it mounts, then in those of
// the two providers' own manifests. from names them without a secret.
func FindCredentials(ctx context.Context, kube kubernetes.Interface, predecessors []family.Predecessor) (config *cloudstack.Config, from string, err error) {
	for i := range predecessors {
		p := &predecessors[i]
		if p.Pod == nil {
			continue
		}
		var names []string
		for _, v := range p.Pod.Volumes {
			if v.Secret != nil {
				names = append(names, v.Secret.SecretName)
			}
		}
		for _, name := range append(names, "cloud-config", credentials.SecretName) {
			s, err := kube.CoreV1().Secrets(p.Namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return nil, "", err
			}
			if cfg := configIn(s); err == nil && cfg != nil {
				return cfg, fmt.Sprintf("Secret %s/%s of %s, API %s", p.Namespace, name, p, cfg.APIURL), nil
			}
		}
	}
	return nil, "", report.Usage("no Secret of another provider holds a cloud-config: neither those that it mounts, nor cloud-config or cloudstack-secret",
		"give --cloud-config FILE, or --api-key-file and --secret-key-file")
}

// configIn parses the first key of a Secret that is a cloud-config with keys.
func configIn(s *corev1.Secret) *cloudstack.Config {
	for _, k := range slices.Sorted(maps.Keys(s.Data)) {
		cfg, err := cloudconfig.Parse(bytes.NewReader(s.Data[k]))
		if err == nil && cfg.APIURL != "" && cfg.APIKey != "" && cfg.SecretKey != "" {
			return cfg
		}
	}
	return nil
}
