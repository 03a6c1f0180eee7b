// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/test/internal/must"
)

// payload is the content of a volume: files by path.
type payload map[string]string

// written is what a directory of the container holds: a folder with the content of a volume.
type written struct {
	content payload
	folder  string
}

type token struct {
	value string
	due   time.Time // when to request a new one
}

// mount writes the mounted volumes whose content has changed.
func (w *worker) mount(ctx context.Context) {
	pod := w.latest()
	mounts := slices.Clone(pod.Spec.Containers[0].VolumeMounts)
	// A mount in the directory of another mount must be written after it.
	slices.SortFunc(mounts, func(a, b corev1.VolumeMount) int { return len(a.MountPath) - len(b.MountPath) })
	for _, m := range mounts {
		i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) // the API server requires it
		dir := filepath.Join(w.root, filepath.FromSlash(m.MountPath))
		must.OK(os.MkdirAll(dir, 0o700))
		if pod.Spec.Volumes[i].EmptyDir != nil {
			continue
		}
		if err := must.Catch(func() { w.write(dir, w.content(ctx, pod, &pod.Spec.Volumes[i])) }); err != nil {
			must.Fail("MountVolume.SetUp failed for volume %q: %w", m.Name, err)
		}
	}
}

// content returns the current content of a volume.
func (w *worker) content(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) payload {
	if s := v.Secret; s != nil {
		return project(w.node.secret(ctx, pod.Namespace, s.SecretName, s.Optional), s.Items, s.Optional)
	}
	all := payload{}
	for _, source := range v.Projected.Sources {
		switch {
		case source.ServiceAccountToken != nil:
			all[source.ServiceAccountToken.Path] = w.token(ctx, pod, source.ServiceAccountToken)
		case source.ConfigMap != nil:
			c, err := w.node.client.CoreV1().ConfigMaps(pod.Namespace).Get(ctx, source.ConfigMap.Name, metav1.GetOptions{})
			allow(err, source.ConfigMap.Optional)
			maps.Copy(all, project(c.Data, source.ConfigMap.Items, source.ConfigMap.Optional))
		case source.DownwardAPI != nil:
			for _, item := range source.DownwardAPI.Items {
				must.Be(item.FieldRef != nil, "process nodes support only fieldRef in the downward API: %s", item.Path)
				all[item.Path] = w.fieldValue(pod, item.FieldRef.FieldPath)
			}
		default:
			must.Fail("process nodes support only service account tokens, ConfigMaps and the downward API in projected volumes")
		}
	}
	return all
}

// secret returns a Secret's data; none when it is optional and does not exist.
func (n *Node) secret(ctx context.Context, namespace, name string, optional *bool) map[string]string {
	s, err := n.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	allow(err, optional)
	data := map[string]string{}
	for k, v := range s.Data {
		data[k] = string(v)
	}
	return data
}

// allow fails unless there is no error, or an optional object does not exist.
func allow(err error, optional *bool) {
	if !apierrors.IsNotFound(err) || !ptr.Deref(optional, false) {
		must.OK(err)
	}
}

// token returns a service account token that is bound to the Pod. It requests a new one
// after four fifths of the token's lifetime.
func (w *worker) token(ctx context.Context, pod *corev1.Pod, p *corev1.ServiceAccountTokenProjection) string {
	held, ok := w.tokens[p.Audience]
	if !ok || time.Now().After(held.due) {
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: p.ExpirationSeconds,
			BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
		}}
		if p.Audience != "" {
			request.Spec.Audiences = []string{p.Audience}
		}
		accounts := w.node.client.CoreV1().ServiceAccounts(pod.Namespace)
		answer := must.Get(accounts.CreateToken(ctx, pod.Spec.ServiceAccountName, request, metav1.CreateOptions{}))
		life := time.Until(answer.Status.ExpirationTimestamp.Time)
		held = token{value: answer.Status.Token, due: time.Now().Add(life * 4 / 5)}
		w.tokens[p.Audience] = held
	}
	return held.value
}

// project returns the keys of a Secret or ConfigMap that a volume contains.
func project(data map[string]string, items []corev1.KeyToPath, optional *bool) payload {
	if len(items) == 0 {
		return data
	}
	all := payload{}
	for _, item := range items {
		value, ok := data[item.Key]
		must.Be(ok || ptr.Deref(optional, false), "references non-existent key: %s", item.Key)
		if ok {
			all[item.Path] = value
		}
	}
	return all
}

// write replaces the content of dir atomically, as the kubelet does: the files are links through ..data, a link to a folder,
// which is replaced in one step. So programs that watch the files see changes as on a real node. Links of files that no longer
// exist lead nowhere.
func (w *worker) write(dir string, content payload) {
	was, ok := w.written[dir]
	if ok && maps.Equal(was.content, content) {
		return
	}
	fresh := must.Get(os.MkdirTemp(dir, "..v-"))
	for name, data := range content {
		file := filepath.Join(fresh, filepath.FromSlash(name))
		must.OK(os.MkdirAll(filepath.Dir(file), 0o700))
		must.OK(os.WriteFile(file, []byte(data), 0o600))
		first, _, _ := strings.Cut(name, "/")
		if err := os.Symlink(filepath.Join("..data", first), filepath.Join(dir, first)); !errors.Is(err, fs.ErrExist) {
			must.OK(err)
		}
	}
	must.OK(os.Symlink(filepath.Base(fresh), fresh+".link"))
	must.OK(os.Rename(fresh+".link", filepath.Join(dir, "..data")))
	w.written[dir] = written{content, fresh}
	if ok {
		must.OK(os.RemoveAll(was.folder))
	}
}

// removeAll removes a folder, including read-only folders in it.
func removeAll(dir string) {
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(name, 0o700) // #nosec G302 G122 -- a folder that is removed below
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}
