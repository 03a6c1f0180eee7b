// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/test/internal/must"
)

// payload is the content of a volume: files by path.
type payload map[string]file

type file struct {
	data string
	mode fs.FileMode
}

// volumes writes the volumes of one Pod below its root directory and updates them from
// the API server.
type volumes struct {
	node  *Node
	pod   *corev1.Pod
	podIP string
	root  string
	id    identity
	own   bool // this process may change the owner of files
	// tokens holds the service account tokens by audience.
	tokens map[string]token
}

type token struct {
	value string
	due   time.Time // when to request a new one
}

// mount writes all mounted volumes; an error names the volume.
func (v *volumes) mount(ctx context.Context) (err error) {
	defer must.Return(&err)
	mounts := slices.Clone(v.pod.Spec.Containers[0].VolumeMounts)
	// A mount in the directory of another mount must be written after it.
	slices.SortFunc(mounts, func(a, b corev1.VolumeMount) int { return len(a.MountPath) - len(b.MountPath) })
	for _, m := range mounts {
		volume := v.find(m.Name)
		if volume == nil {
			return fmt.Errorf("the Pod has no volume %q", m.Name)
		}
		dir := v.path(m.MountPath)
		if err := os.MkdirAll(dir, 0o755); err != nil { // #nosec G301 -- the container's user must have access
			return err
		}
		if volume.EmptyDir != nil {
			must.OK(v.give(dir, 0o777))
			continue
		}
		must.OK(v.write(ctx, volume, dir))
	}
	return nil
}

// refresh writes the volumes whose content has changed.
func (v *volumes) refresh(ctx context.Context) error {
	for _, m := range v.pod.Spec.Containers[0].VolumeMounts {
		if volume := v.find(m.Name); volume != nil && volume.EmptyDir == nil {
			if err := v.write(ctx, volume, v.path(m.MountPath)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *volumes) write(ctx context.Context, volume *corev1.Volume, dir string) error {
	content, err := v.content(ctx, volume)
	if err != nil {
		return fmt.Errorf("MountVolume.SetUp failed for volume %q: %w", volume.Name, err)
	}
	return writePayload(dir, content, v.give)
}

func (v *volumes) find(name string) *corev1.Volume {
	for i := range v.pod.Spec.Volumes {
		if v.pod.Spec.Volumes[i].Name == name {
			return &v.pod.Spec.Volumes[i]
		}
	}
	return nil
}

func (v *volumes) path(inContainer string) string {
	return filepath.Join(v.root, filepath.FromSlash(path.Clean("/"+inContainer)))
}

// content returns the current content of a volume.
func (v *volumes) content(ctx context.Context, volume *corev1.Volume) (_ payload, err error) {
	defer must.Return(&err)
	if s := volume.Secret; s != nil {
		data := must.Get(v.node.secret(ctx, v.pod.Namespace, s.SecretName, s.Optional))
		return project(data, s.Items, s.DefaultMode, s.Optional)
	}
	return v.projected(ctx, volume.Projected)
}

func (v *volumes) projected(ctx context.Context, p *corev1.ProjectedVolumeSource) (payload, error) {
	all := payload{}
	for _, source := range p.Sources {
		var part payload
		var err error
		switch {
		case source.ServiceAccountToken != nil:
			part, err = v.token(ctx, source.ServiceAccountToken)
		case source.ConfigMap != nil:
			var data map[string]string
			if data, err = v.node.configMap(ctx, v.pod.Namespace, source.ConfigMap.Name, source.ConfigMap.Optional); err == nil {
				part, err = project(data, source.ConfigMap.Items, p.DefaultMode, source.ConfigMap.Optional)
			}
		case source.DownwardAPI != nil:
			part, err = v.downward(source.DownwardAPI.Items, p.DefaultMode)
		default:
			err = fmt.Errorf("process nodes support only service account tokens, ConfigMaps and the downward API in projected volumes")
		}
		if err != nil {
			return nil, err
		}
		for name, f := range part {
			all[name] = f
		}
	}
	return all, nil
}

// token returns a service account token that is bound to the Pod. It requests a new one
// after four fifths of the token's lifetime. As with the kubelet, the container's user
// owns the file.
func (v *volumes) token(ctx context.Context, p *corev1.ServiceAccountTokenProjection) (payload, error) {
	held, ok := v.tokens[p.Audience]
	if !ok || time.Now().After(held.due) {
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: p.ExpirationSeconds,
			BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: v.pod.Name, UID: v.pod.UID},
		}}
		if p.Audience != "" {
			request.Spec.Audiences = []string{p.Audience}
		}
		answer, err := v.node.client.CoreV1().ServiceAccounts(v.pod.Namespace).CreateToken(ctx, v.pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("failed to fetch token: %w", err)
		}
		life := time.Until(answer.Status.ExpirationTimestamp.Time)
		held = token{value: answer.Status.Token, due: time.Now().Add(life * 4 / 5)}
		v.tokens[p.Audience] = held
	}
	mode := fs.FileMode(0o600)
	if !v.own {
		mode = 0o644
	}
	return payload{p.Path: {held.value, mode}}, nil
}

func (v *volumes) downward(items []corev1.DownwardAPIVolumeFile, defaultMode *int32) (_ payload, err error) {
	defer must.Return(&err)
	all := payload{}
	for _, item := range items {
		if item.FieldRef == nil {
			return nil, fmt.Errorf("process nodes support only fieldRef in the downward API: %s", item.Path)
		}
		value := must.Get(v.node.fieldValue(v.pod, v.podIP, item.FieldRef.FieldPath))
		all[item.Path] = file{value, modeOf(item.Mode, defaultMode)}
	}
	return all, nil
}

// project returns the keys of a Secret or ConfigMap that a volume contains.
func project(data map[string]string, items []corev1.KeyToPath, defaultMode *int32, optional *bool) (payload, error) {
	all := payload{}
	if len(items) == 0 {
		for key, value := range data {
			all[key] = file{value, modeOf(nil, defaultMode)}
		}
		return all, nil
	}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok {
			if optional != nil && *optional {
				continue
			}
			return nil, fmt.Errorf("references non-existent key: %s", item.Key)
		}
		all[item.Path] = file{value, modeOf(item.Mode, defaultMode)}
	}
	return all, nil
}

func modeOf(own, def *int32) fs.FileMode {
	mode := int32(0o644)
	set(&mode, def)
	set(&mode, own)
	return fs.FileMode(mode) & fs.ModePerm // #nosec G115 -- nine bits
}

// give makes the container's user the owner of a file, where this process may do that.
// The file's group is the Pod's fsGroup, if set, and gets the owner's read and write
// permissions.
func (v *volumes) give(name string, mode fs.FileMode) error {
	uid, gid := int(v.id.uid), int(v.id.gid)
	if v.id.fsGroup != nil {
		gid = int(*v.id.fsGroup)
		mode |= (mode & 0o600) >> 3
	}
	if v.own {
		if err := os.Lchown(name, uid, gid); err != nil {
			return err
		}
	}
	return os.Chmod(name, mode)
}

// writePayload replaces the content of dir with the payload atomically, as the kubelet
// does: the files are links through ..data, a link to a folder, which is replaced in
// one step. So programs that watch the files see changes as on a real node.
func writePayload(dir string, content payload, give func(string, fs.FileMode) error) (err error) {
	defer must.Return(&err)
	current := filepath.Join(dir, "..data")
	if same(current, content) {
		return nil
	}
	fresh := must.Get(os.MkdirTemp(dir, "..v-"))
	if err := os.Chmod(fresh, 0o755); err != nil { // #nosec G302 -- a folder of the container
		return err
	}
	for name, f := range content {
		full := filepath.Join(fresh, filepath.FromSlash(name))
		if !strings.HasPrefix(full, fresh+string(filepath.Separator)) {
			return fmt.Errorf("file %q is outside of its volume", name)
		}
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil { // #nosec G301 -- likewise
			return err
		}
		must.OK(os.WriteFile(full, []byte(f.data), 0o600))
		must.OK(give(full, f.mode))
	}
	old, _ := os.Readlink(current)
	next := filepath.Join(dir, "..data_tmp")
	_ = os.Remove(next)
	must.OK(os.Symlink(filepath.Base(fresh), next))
	must.OK(os.Rename(next, current))
	for name := range content {
		first, _, _ := strings.Cut(name, "/")
		link := filepath.Join(dir, first)
		if _, err := os.Lstat(link); err != nil {
			must.OK(os.Symlink(filepath.Join("..data", first), link))
		}
	}
	if old == "" {
		return nil
	}
	entries := must.Get(os.ReadDir(dir))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		// Links to files that no longer exist are removed.
		if _, err := os.Stat(filepath.Join(dir, e.Name())); os.IsNotExist(err) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	return os.RemoveAll(filepath.Join(dir, old))
}

// same reports whether a volume's folder holds exactly the data of a payload.
func same(dir string, content payload) bool {
	seen := 0
	base, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	err = filepath.WalkDir(base, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		relative, err := filepath.Rel(base, name)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(name) // #nosec G304 G122 -- a volume that this node wrote
		if err != nil {
			return err
		}
		if f, ok := content[filepath.ToSlash(relative)]; !ok || f.data != string(b) {
			return fs.ErrNotExist
		}
		seen++
		return nil
	})
	return err == nil && seen == len(content)
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
