// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/test/internal/must"
)

// image is a program that runs in place of a container image.
type image struct {
	repository string
	binary     string // on this machine
	path       string // in the container
	digest     string
}

// imageUser is the user of the image, as in its Dockerfile.
const imageUser int64 = 65532

func loadImages(binaries map[string]string) (map[string]image, error) {
	images := map[string]image{}
	for repository, binary := range binaries {
		digest, err := digestOf(binary)
		if err != nil {
			return nil, fmt.Errorf("program of image %s: %w", repository, err)
		}
		images[repository] = image{repository: repository, binary: binary, path: "/" + path.Base(repositoryOf(repository)), digest: digest}
	}
	return images, nil
}

// build is a program as it was built once.
type build struct {
	path     string
	size     int64
	modified time.Time
}

var digests sync.Map // build -> digest: a hundred nodes run the same programs, of 60 MB each

func digestOf(binary string) (_ string, err error) {
	defer must.Return(&err)
	f, err := os.Open(binary) // #nosec G304 -- the caller's own program
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	info := must.Get(f.Stat())
	key := build{binary, info.Size(), info.ModTime()}
	if known, ok := digests.Load(key); ok {
		return known.(string), nil //nolint:forcetypeassert // nothing else is stored
	}
	sum := sha256.New()
	must.Get(io.Copy(sum, f))
	digest := "sha256:" + hex.EncodeToString(sum.Sum(nil))
	digests.Store(key, digest)
	return digest, nil
}

// repositoryOf returns an image reference without tag and digest.
func repositoryOf(reference string) string {
	reference, _, _ = strings.Cut(reference, "@")
	slash := strings.LastIndex(reference, "/")
	if colon := strings.LastIndex(reference, ":"); colon > slash {
		reference = reference[:colon]
	}
	return reference
}

// refusal is why a container waits: reason and message of its status, as the kubelet writes them.
type refusal struct{ reason, message string }

func (r *refusal) Error() string { return r.reason + ": " + r.message }

// findImage returns the program for a Pod's container.
func (n *Node) findImage(reference string) (image, *refusal) {
	for _, name := range []string{reference, repositoryOf(reference)} {
		if img, ok := n.images[name]; ok {
			return img, nil
		}
	}
	known := make([]string, 0, len(n.images))
	for repository := range n.images {
		known = append(known, repository)
	}
	return image{}, &refusal{"ErrImageNeverPull", fmt.Sprintf("process nodes pull no images and run only: %s; not %s", strings.Join(known, ", "), reference)}
}

// supported returns why a process node cannot run a Pod, nil when it can. It refuses
// every field of the spec that would otherwise be ignored silently.
func supported(pod *corev1.Pod) *refusal {
	no := func(format string, a ...any) *refusal {
		return &refusal{"CreateContainerConfigError", "process nodes " + fmt.Sprintf(format, a...)}
	}
	spec := &pod.Spec
	if len(spec.InitContainers) > 0 {
		return no("run no init containers")
	}
	if len(spec.Containers) != 1 {
		return no("run Pods of one container, not of %d", len(spec.Containers))
	}
	c := &spec.Containers[0]
	if c.Lifecycle != nil {
		return no("run no lifecycle hooks")
	}
	if len(c.VolumeDevices) > 0 || len(c.EnvFrom) > 0 {
		return no("have no block devices and no envFrom")
	}
	for name, probe := range map[string]*corev1.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
		if probe != nil && (probe.HTTPGet == nil || probe.HTTPGet.Host != "" || len(probe.HTTPGet.HTTPHeaders) > 0) {
			return no("support only httpGet probes without host and headers: the %s probe is none", name)
		}
	}
	kinds := map[string]bool{}
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		if v.Secret == nil && v.Projected == nil && v.EmptyDir == nil {
			return no("support only secret, projected and emptyDir volumes: %s is none of these", v.Name)
		}
		kinds[v.Name] = v.EmptyDir != nil
	}
	mounted := map[string]bool{}
	for _, m := range c.VolumeMounts {
		if m.SubPath != "" || m.SubPathExpr != "" {
			return no("have no subPath mounts: volume %s", m.Name)
		}
		if kinds[m.Name] && mounted[m.Name] {
			return no("mount an emptyDir once: volume %s", m.Name)
		}
		mounted[m.Name] = true
	}
	if spec.HostPID || spec.HostIPC {
		return no("share no host namespaces")
	}
	return nil
}

// identity is the user and the groups of a container.
type identity struct {
	uid, gid int64
	fsGroup  *int64
	extra    []int64
}

// identityOf returns the container's identity by the kubelet's precedence: the
// container's security context, the Pod's, the image's user.
func identityOf(pod *corev1.Pod) (identity, *refusal) {
	id := identity{uid: imageUser, gid: imageUser}
	nonRoot := false
	if s := pod.Spec.SecurityContext; s != nil {
		set(&id.uid, s.RunAsUser)
		set(&id.gid, s.RunAsGroup)
		set(&nonRoot, s.RunAsNonRoot)
		id.fsGroup, id.extra = s.FSGroup, s.SupplementalGroups
	}
	if s := pod.Spec.Containers[0].SecurityContext; s != nil {
		set(&id.uid, s.RunAsUser)
		set(&id.gid, s.RunAsGroup)
		set(&nonRoot, s.RunAsNonRoot)
	}
	if nonRoot && id.uid == 0 {
		return id, &refusal{"CreateContainerConfigError", "container's runAsUser breaks non-root policy"}
	}
	return id, nil
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}
