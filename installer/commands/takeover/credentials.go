// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"bytes"
	"context"
	"errors"
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
	"github.com/csccm/csccm/installer/commands/takeover/family"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

// secretRef is a key of a Secret that may hold a cloud-config; key "" is any.
type secretRef struct{ namespace, name, key string }

// usualSecrets are those of the two providers by their own manifests.
var usualSecrets = []string{"cloud-config", credentials.SecretName}

// cloudConfigs returns where a workload may have its cloud-config from: the Secrets that it mounts, then the usual ones.
func cloudConfigs(w *workload, c *corev1.Container) []secretRef {
	file, _ := family.Argument(family.Arguments(c), "cloud-config")
	var out []secretRef
	for _, v := range w.pod.Volumes {
		var secrets []secretRef
		if v.Secret != nil {
			secrets = append(secrets, secretRef{w.meta.Namespace, v.Secret.SecretName, keyOf(v.Secret.Items, c, v.Name, file)})
		}
		if v.Projected != nil {
			for _, s := range v.Projected.Sources {
				if s.Secret != nil {
					secrets = append(secrets, secretRef{w.meta.Namespace, s.Secret.Name, keyOf(s.Secret.Items, c, v.Name, file)})
				}
			}
		}
		out = append(out, secrets...)
	}
	for _, name := range usualSecrets {
		if !slices.ContainsFunc(out, func(r secretRef) bool { return r.name == name }) {
			out = append(out, secretRef{w.meta.Namespace, name, credentials.SecretKey})
		}
	}
	return out
}

// keyOf finds the key of a Secret's volume that the container reads as file; "" when that does not show.
func keyOf(items []corev1.KeyToPath, c *corev1.Container, volume, file string) string {
	for _, m := range c.VolumeMounts {
		if m.Name != volume {
			continue
		}
		name := path.Base(file)
		if m.SubPath != "" && m.MountPath == file {
			name = m.SubPath
		} else if m.MountPath != path.Dir(file) {
			continue
		}
		for _, i := range items {
			if i.Path == name {
				return i.Key
			}
		}
		return name
	}
	return ""
}

// Credentials are those of a predecessor, as they are in the cluster.
type Credentials struct {
	Predecessor Predecessor
	Secret      string // namespace/name
	Config      *cloudstack.Config
}

// String names them without a secret.
func (c *Credentials) String() string {
	return fmt.Sprintf("Secret %s of %s, API %s", c.Secret, &c.Predecessor, c.Config.APIURL)
}

// NoCredentialsError is a predecessor whose credentials csccm does not find.
type NoCredentialsError struct {
	Looked []string // Secrets
}

func (e *NoCredentialsError) Error() string {
	if len(e.Looked) == 0 {
		return "there is no other provider for CloudStack whose credentials could be used"
	}
	return "no Secret of the other provider holds a cloud-config; looked at " + strings.Join(e.Looked, ", ")
}

// Remedy names the other ways.
func (e *NoCredentialsError) Remedy() string {
	return "give --cloud-config FILE, or --api-key-file and --secret-key-file"
}

// ExitCode is that of wrong usage.
func (e *NoCredentialsError) ExitCode() int { return 2 }

// FindCredentials reads the cloud-config of the first predecessor that has one.
func FindCredentials(ctx context.Context, kube kubernetes.Interface, predecessors []Predecessor) (*Credentials, error) {
	var looked []string
	for i := range predecessors {
		for _, ref := range predecessors[i].configs {
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
	return nil, &NoCredentialsError{Looked: slices.Compact(looked)}
}

// configIn parses a Secret's key, or with "" the first that is a cloud-config with keys.
func configIn(s *corev1.Secret, key string) *cloudstack.Config {
	keys := []string{key}
	if key == "" || s.Data[key] == nil {
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

// NoCredentials reports whether the error says that there are none.
func NoCredentials(err error) bool {
	_, none := errors.AsType[*NoCredentialsError](err)
	return none
}
