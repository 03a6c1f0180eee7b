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

// secretRef is a Secret that may hold a cloud-config, and the key in which it probably is.
type secretRef struct{ namespace, name, key string }

// usualSecrets are those of the two providers by their own manifests.
var usualSecrets = []string{"cloud-config", credentials.SecretName}

// cloudConfigs returns where a predecessor may have its cloud-config from: the Secrets that it mounts, then the usual ones. A key
// has the name of the file that the container reads, where the volume does not rename it.
func cloudConfigs(p *family.Predecessor) []secretRef {
	if p.Pod == nil {
		return nil
	}
	_, c := family.OfPod(p.Pod, p.Name)
	file, _ := family.Argument(family.Arguments(c), "cloud-config")
	var names []string
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
	var out []secretRef
	for _, name := range append(names, usualSecrets...) {
		if ref := (secretRef{p.Namespace, name, path.Base(file)}); !slices.Contains(out, ref) {
			out = append(out, ref)
		}
	}
	return out
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
		for _, ref := range cloudConfigs(&predecessors[i]) {
			s, err := kube.CoreV1().Secrets(ref.namespace).Get(ctx, ref.name, metav1.GetOptions{})
			looked = append(looked, ref.namespace+"/"+ref.name)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if cfg := configIn(s, ref.key); cfg != nil {
				return &Credentials{Predecessor: predecessors[i], Secret: ref.namespace + "/" + ref.name, Config: cfg}, nil
			}
		}
	}
	none := "there is no other provider for CloudStack whose credentials could be used"
	if len(looked) > 0 {
		none = "no Secret of the other provider holds a cloud-config; looked at " + strings.Join(slices.Compact(looked), ", ")
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
