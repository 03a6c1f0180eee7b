// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// The Secret has the same name and key as upstream's, so that either provider finds it when one replaces the other, and
// so that CloudStack's Kubernetes service keeps it.
const (
	SecretName = "cloudstack-secret" //nolint:gosec // a name
	SecretKey  = "cloud-config"      //nolint:gosec // a name
	// CAConfigMap holds, in the key CAKey, the CA certificates for CloudStack's API. They are not secret; the chart
	// mounts them.
	CAConfigMap = "cloudstack-ca"
	CAKey       = "ca.crt"
)

// manager is the field manager of csccm, and the value of managedByLabel on objects that csccm created.
const manager, managedByLabel = "csccm", "app.kubernetes.io/managed-by"

// Secret has the controller's credentials as stored in the cluster.
type Secret struct {
	Namespace, Name, Key string // the controller reads this key of its data
	Exists               bool
	Config               *cloudstack.Config // nil when it does not exist or Problem is set
	Problem              error              // why its cloud-config cannot be used

	Object *corev1.Secret // as it was read; nil when it does not exist
}

func (s *Secret) String() string { return s.Namespace + "/" + s.Name }

// SecretOf reads the Secret that a release's Pods mount; without such Pods the default one. If release is "", any
// release in the namespace counts.
func SecretOf(ctx context.Context, c *cluster.Cluster, release string) (*Secret, error) {
	name, key := "", ""
	selector := metav1.ListOptions{LabelSelector: cluster.NameLabel + "=" + cluster.ChartName}
	if release != "" {
		selector = cluster.OfRelease(release)
	}

	all, err := cluster.Workloads(ctx, c.Kube, c.Namespace, selector)
	if err != nil && !apierrors.IsForbidden(err) { // a user who may read only the Secret gets the default one
		return nil, err
	}
	for _, w := range all {
		for _, v := range w.Pod.Volumes {
			if v.Name == SecretKey && v.Secret != nil && len(v.Secret.Items) > 0 { // mounted by the chart
				name, key = v.Secret.SecretName, v.Secret.Items[0].Key
			}
		}
	}
	return ReadSecret(ctx, c.Kube, c.Namespace, name, key)
}

// SecretOfValues reads the Secret that Pods with these chart values mount.
func SecretOfValues(ctx context.Context, c *cluster.Cluster, values map[string]any) (*Secret, error) {
	existing, _ := values["existingSecret"].(map[string]any)
	name, _ := existing["name"].(string)
	key, _ := existing["key"].(string)
	return ReadSecret(ctx, c.Kube, c.Namespace, name, key)
}

// ReadSecret reads a Secret; "" for name or key means the default. It returns no error if the Secret does not exist or
// the cloud-config is invalid; see Exists and Problem.
func ReadSecret(ctx context.Context, kube kubernetes.Interface, namespace, name, key string) (*Secret, error) {
	s := &Secret{Namespace: namespace, Name: cmp.Or(name, SecretName), Key: cmp.Or(key, SecretKey)}
	object, err := kube.CoreV1().Secrets(namespace).Get(ctx, s.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return s, nil
	case err != nil:
		return nil, fmt.Errorf("reading Secret %s: %w", s, err)
	}
	s.Exists, s.Object = true, object
	if text, ok := object.Data[s.Key]; !ok {
		s.Problem = fmt.Errorf("Secret %s has no key %s", s, s.Key)
	} else if s.Config, err = parse(text); err != nil {
		s.Problem = fmt.Errorf("Secret %s: %w", s, err)
	}
	return s, nil
}

// Changeable returns an error if Kubernetes refuses to change the content of the Secret.
func (s *Secret) Changeable() error {
	if s.Object == nil || !ptr.Deref(s.Object.Immutable, false) {
		return nil
	}
	return report.Usage("delete it and create it again without `immutable: true`",
		"Secret %s is immutable: nothing was changed", s)
}

// SecretAction is what an installation does with the Secret.
type SecretAction string

// Actions of a SecretPlan.
const (
	SecretKeep      SecretAction = "keep"
	SecretCreate    SecretAction = "create"
	SecretOverwrite SecretAction = "overwrite" // needs the operator's consent
)

// SecretPlan is the change from the existing Secret to the wanted configuration.
type SecretPlan struct {
	Action      SecretAction
	Differences []string       // for overwrite: the changes, without secret values
	object      *corev1.Secret // the new object; nil for keep
}

// PlanSecret compares the Secret with the wanted configuration. A ca-file is a path on the operator's machine and is
// not written to the Secret; see ApplyCA. Overwriting keeps other keys, labels and annotations of the object, and fails
// if somebody has changed the object since it was read.
func PlanSecret(s *Secret, wanted *cloudstack.Config) (*SecretPlan, error) {
	inPod := *wanted
	inPod.CAFile = ""
	if s.Config != nil {
		inPod.CAFile = s.Config.CAFile // keep a path in the Pod that somebody configured by hand
	}

	if err := inPod.Validate(); err != nil {
		return nil, report.Usage("check the flags", "the cloud-config would be wrong: %w", err)
	}

	p := &SecretPlan{Action: SecretOverwrite, object: s.Object.DeepCopy()}
	switch {
	case !s.Exists:
		p.Action, p.object = SecretCreate, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: s.Namespace,
				Name:      s.Name,
				Labels:    map[string]string{"app.kubernetes.io/part-of": manager},
			},
			Type: corev1.SecretTypeOpaque,
		}
	case s.Config == nil:
		p.Differences = []string{s.Problem.Error()}
	default:
		if p.Differences = s.Config.Differences(&inPod); len(p.Differences) == 0 {
			return &SecretPlan{Action: SecretKeep}, nil
		}
	}

	if err := s.Changeable(); err != nil {
		return nil, err
	}

	if p.object.Labels[managedByLabel] == "" {
		metav1.SetMetaDataLabel(&p.object.ObjectMeta, managedByLabel, manager)
	}

	if p.object.Data == nil {
		p.object.Data = map[string][]byte{}
	}

	p.object.Data[s.Key] = inPod.Render()
	return p, nil
}

// DryRun sends the plan to the API server as a dry run.
func (p *SecretPlan) DryRun(ctx context.Context, kube kubernetes.Interface) error {
	err := p.Apply(ctx, kube, metav1.DryRunAll)
	if p.Action == SecretCreate && apierrors.IsNotFound(err) {
		return nil // the namespace is created before the Secret
	}
	return err
}

// Apply carries the plan out.
func (p *SecretPlan) Apply(ctx context.Context, kube kubernetes.Interface, dryRun ...string) (err error) {
	if p.object == nil {
		return nil
	}
	secrets := kube.CoreV1().Secrets(p.object.Namespace)
	if p.Action == SecretCreate {
		_, err = secrets.Create(ctx, p.object, metav1.CreateOptions{FieldManager: manager, DryRun: dryRun})
	} else {
		_, err = secrets.Update(ctx, p.object, metav1.UpdateOptions{FieldManager: manager, DryRun: dryRun})
	}
	if err != nil {
		return fmt.Errorf("writing Secret %s/%s: %w", p.object.Namespace, p.object.Name, err)
	}
	return nil
}

// EnsureNamespace creates the namespace if it does not exist: the Secret is written before Helm would create the
// namespace.
func EnsureNamespace(ctx context.Context, kube kubernetes.Interface, namespace string) error {
	_, err := kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return nil // it exists; or it cannot be read, and writing the Secret shows whether it exists
	}
	_, err = kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{managedByLabel: manager},
	}}, metav1.CreateOptions{FieldManager: manager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating namespace %s: %w", namespace, err)
	}
	return nil
}

// ApplyCA stores the certificates in a ConfigMap for the controller's Pods.
func ApplyCA(ctx context.Context, kube kubernetes.Interface, namespace string, pem []byte) error {
	err := cluster.ChangeConfigMap(ctx, kube, namespace, CAConfigMap, func(c *corev1.ConfigMap) error {
		c.Data[CAKey] = string(pem)
		return nil
	})
	if err != nil {
		return fmt.Errorf("keeping the CA bundle in ConfigMap %s/%s: %w", namespace, CAConfigMap, err)
	}
	return nil
}

// LocalConfig returns the Secret's configuration for use on this machine, where the Pod's paths do not exist. It writes
// the CA bundle of CAConfigMap to a temporary file, which cleanup removes.
func (s *Secret) LocalConfig(
	ctx context.Context, kube kubernetes.Interface,
) (cfg *cloudstack.Config, cleanup func(), err error) {
	local := *s.Config
	local.CAFile = ""
	object, err := kube.CoreV1().ConfigMaps(s.Namespace).Get(ctx, CAConfigMap, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return nil, nil, fmt.Errorf("reading ConfigMap %s/%s: %w", s.Namespace, CAConfigMap, err)
	}

	if err != nil || object.Data[CAKey] == "" {
		return &local, func() {}, nil //nolint:nilerr // there is none, or it may not be read: the system's CAs are used
	}

	dir, err := os.MkdirTemp("", "csccm-ca-")
	if err == nil {
		local.CAFile = filepath.Join(dir, CAKey)
		err = os.WriteFile(local.CAFile, []byte(object.Data[CAKey]), 0o600)
	}

	cleanup = func() { _ = os.RemoveAll(dir) }
	if err != nil {
		cleanup()
		return nil, nil, fmt.Errorf("writing the CA bundle: %w", err)
	}

	return &local, cleanup, nil
}
