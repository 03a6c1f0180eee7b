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

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/test/internal/must"
)

// payload is the content of a volume: files by path.
type payload map[string]string

// mount writes the mounted volumes whose content has changed.
func (w *worker) mount(ctx context.Context) {
	pod := w.latest()
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		// The API server guarantees that the volume exists.
		i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		dir := filepath.Join(w.root, filepath.FromSlash(m.MountPath))
		must.OK(os.MkdirAll(dir, 0o700))
		if err := must.Catch(func() { w.write(dir, w.content(ctx, pod, &pod.Spec.Volumes[i])) }); err != nil {
			must.Fail("MountVolume.SetUp failed for volume %q: %w", m.Name, err)
		}
	}
}

// content returns the current content of a volume.
func (w *worker) content(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) payload {
	core := w.node.client.CoreV1()
	if s := v.Secret; s != nil {
		data := map[string]string{}
		for key, value := range must.Get(core.Secrets(pod.Namespace).Get(ctx, s.SecretName, metav1.GetOptions{})).Data {
			data[key] = string(value)
		}
		return project(data, s.Items)
	}

	must.Be(v.Projected != nil, "process nodes support only secret and projected volumes")
	all := payload{}
	for _, source := range v.Projected.Sources {
		switch {
		case source.ServiceAccountToken != nil:
			all[source.ServiceAccountToken.Path] = w.tokenOf(ctx, pod, source.ServiceAccountToken.ExpirationSeconds)
		case source.ConfigMap != nil:
			c := must.Get(core.ConfigMaps(pod.Namespace).Get(ctx, source.ConfigMap.Name, metav1.GetOptions{}))
			maps.Copy(all, project(c.Data, source.ConfigMap.Items))
		case source.DownwardAPI != nil:
			for _, item := range source.DownwardAPI.Items {
				must.Be(item.FieldRef != nil, "process nodes support only fieldRef in the downward API: %s", item.Path)
				all[item.Path] = w.fieldValue(pod, item.FieldRef.FieldPath)
			}
		default:
			must.Fail("process nodes support only service account tokens, ConfigMaps and the downward API in " +
				"projected volumes")
		}
	}

	return all
}

// tokenOf returns the Pod's service account token. If a kubelet requests a token for an hour, the API server issues it
// for a year, so one request is enough.
func (w *worker) tokenOf(ctx context.Context, pod *corev1.Pod, seconds *int64) string {
	if w.token == "" {
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: seconds,
			BoundObjectRef: &authenticationv1.BoundObjectReference{
				Kind:       "Pod",
				APIVersion: "v1",
				Name:       pod.Name,
				UID:        pod.UID,
			},
		}}
		accounts := w.node.client.CoreV1().ServiceAccounts(pod.Namespace)
		w.token = must.Get(accounts.CreateToken(ctx, pod.Spec.ServiceAccountName, request,
			metav1.CreateOptions{})).Status.Token
	}
	return w.token
}

// project returns the keys of a Secret or ConfigMap that are in the volume.
func project(data map[string]string, items []corev1.KeyToPath) payload {
	if len(items) == 0 {
		return data
	}
	all := payload{}
	for _, item := range items {
		value, ok := data[item.Key]
		must.Be(ok, "references non-existent key: %s", item.Key)
		all[item.Path] = value
	}
	return all
}

// write replaces the content of dir atomically, as the kubelet does. The files are links through ..data, a link to a
// folder that is replaced in one step. So programs that watch the files see changes as on a real node. Links of
// deleted files are left dangling.
func (w *worker) write(dir string, content payload) {
	if was, ok := w.written[dir]; ok && maps.Equal(was, content) {
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

	was, err := os.Readlink(filepath.Join(dir, "..data"))
	must.OK(os.Symlink(filepath.Base(fresh), fresh+".link"))
	must.OK(os.Rename(fresh+".link", filepath.Join(dir, "..data")))
	w.written[dir] = content
	if err == nil {
		must.OK(os.RemoveAll(filepath.Join(dir, was)))
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
