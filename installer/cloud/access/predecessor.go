// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// OfPredecessor returns the cloud-config of the predecessors that run, or of all if none runs. It returns an error if
// they use different credentials. from names the Secret and the API URL, without secret data.
func OfPredecessor(
	ctx context.Context, kube kubernetes.Interface, predecessors []family.Predecessor,
) (text []byte, from string, err error) {
	const fix = "give --cloud-config FILE, or --api-key-file and --secret-key-file"
	running := slices.DeleteFunc(slices.Clone(predecessors), func(p family.Predecessor) bool { return p.Wanted == 0 })
	if len(running) == 0 {
		running = predecessors
	}

	problem := "no Secret of another provider holds a cloud-config: neither those that it mounts, nor cloud-config " +
		"or cloudstack-secret"
	var used *cloudstack.Config
	for _, p := range running {
		found, config, at, err := cloudConfigOf(ctx, kube, &p)
		switch {
		case err != nil:
			return nil, "", err
		case config == nil:
			problem = cmp.Or(at, problem)
		case used == nil:
			text, used, from = found, config, at
		case config.APIURL != used.APIURL || config.APIKey != used.APIKey || config.ProjectID != used.ProjectID:
			return nil, "", report.Usage(fix, "the other providers use different credentials: %s; %s", from, at)
		}
	}

	if used == nil {
		return nil, "", report.Usage(fix, "%s", problem)
	}

	return text, from, nil
}

// cloudConfigOf returns the cloud-config of a predecessor. It looks in the Secrets that the predecessor mounts, then in
// those of the two providers' manifests. at says where it is or, without a valid one, what is wrong with one.
func cloudConfigOf(
	ctx context.Context, kube kubernetes.Interface, p *family.Predecessor,
) (text []byte, config *cloudstack.Config, at string, err error) {
	var names []string
	for _, v := range p.Pod.Volumes {
		if v.Secret != nil {
			names = append(names, v.Secret.SecretName)
		}
	}

	for _, name := range append(names, "cloud-config", SecretName) {
		s, err := kube.CoreV1().Secrets(p.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, nil, "", err
		}

		for _, key := range slices.Sorted(maps.Keys(s.Data)) {
			text := s.Data[key]
			where := fmt.Sprintf("Secret %s/%s of %s", p.Namespace, name, p)
			config, err := parse(text)
			switch {
			case err == nil:
				return text, config, where + ", API " + config.APIURL, nil
			case bytes.Contains(bytes.ToLower(text), []byte("api-url")):
				at = fmt.Sprintf("%s: %v", where, err)
			}
		}
	}

	return nil, nil, at, nil
}
