// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

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

// secretsOf returns the Secrets of a predecessor's namespace that may have its cloud-config: those that it mounts, then those of
// the two providers' own manifests. A key has the name of the file that the container reads, where the volume does not rename it.
func secretsOf(p *family.Predecessor) (names []string, key string) {
	if p.Pod == nil {
		return nil, ""
	}
	_, c := family.OfPod(p.Pod, p.Name)
	file, _ := family.Argument(family.Arguments(c), "cloud-config")
	for _, v := range p.Pod.Volumes {
		if v.Secret != nil {
			names = append(names, v.Secret.SecretName)
		}
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				names = append(names, s.Secret.Name)
			}
		}
	}
	return append(names, "cloud-config", credentials.SecretName), path.Base(file)
}

// Credentials are those of a predecessor, as they are in the cluster.
type Credentials struct {
	Predecessor family.Predecessor
	Secret      string // namespace/name
	Config      *cloudstack.Config
}

// String names them without a secret.
func (c *Credentials) String() string {
	return fmt.Sprintf("Secret %s of %s, API %s", c.Secret, &c.Predecessor, c.Config.APIURL)
}

// FindCredentials reads the cloud-config of the first predecessor that has one.
func FindCredentials(ctx context.Context, kube kubernetes.Interface, predecessors []family.Predecessor) (*Credentials, error) {
	var looked []string
	for i := range predecessors {
		p := &predecessors[i]
		names, key := secretsOf(p)
		for _, name := range names {
			at := p.Namespace + "/" + name
			if slices.Contains(looked, at) {
				continue
			}
			looked = append(looked, at)
			s, err := kube.CoreV1().Secrets(p.Namespace).Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if cfg := configIn(s, key); cfg != nil {
				return &Credentials{Predecessor: *p, Secret: at, Config: cfg}, nil
			}
		}
	}
	none := "there is no other provider for CloudStack whose credentials could be used"
	if len(looked) > 0 {
		none = "no Secret of the other provider holds a cloud-config; looked at " + strings.Join(looked, ", ")
	}
	return nil, report.Usage(none, "give --cloud-config FILE, or --api-key-file and --secret-key-file")
}

// configIn parses a Secret's key, or without it the first that is a cloud-config with keys.
func configIn(s *corev1.Secret, key string) *cloudstack.Config {
	keys := []string{key}
	if s.Data[key] == nil {
		keys = slices.Sorted(maps.Keys(s.Data))
	}
	for _, k := range keys {
		cfg, err := cloudconfig.Parse(bytes.NewReader(s.Data[k]))
		if err == nil && cfg.APIURL != "" && cfg.APIKey != "" && cfg.SecretKey != "" {
			return cfg
		}
	}
	return nil
}
