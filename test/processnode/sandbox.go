// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/internal/must"
)

// launch starts the container. If this machine allows it, the container runs in a sandbox: with its own root directory
// in a user namespace.
func (w *worker) launch(ctx context.Context, run int) (_ *child.Process, err error) {
	defer must.Return(&err)
	pod := w.latest()
	c := &pod.Spec.Containers[0]
	cmd := child.Command{Name: w.name(), Log: filepath.Join(w.logs, fmt.Sprintf("%d.log", run)), Dir: "/"}
	if !pod.Spec.HostNetwork {
		cmd.Hostname = pod.Name
	}

	values := w.environment(pod)
	for name, value := range values {
		cmd.Env = append(cmd.Env, name+"="+value)
	}

	command := c.Command
	if len(command) == 0 {
		command = []string{w.program}
	}

	for _, a := range slices.Concat(command, c.Args) {
		cmd.Args = append(cmd.Args, expand(a, values))
	}

	cmd.Path, cmd.Args = cmd.Args[0], cmd.Args[1:]
	if attr := sandbox(w.root, w.uid, w.gid); attr != nil && !w.node.plain.Load() {
		isolated := cmd
		isolated.Attr = attr
		p, err := child.Start(ctx, isolated)
		if !forbidden(err) {
			return p, err
		}
		w.node.plain.Store(true)
	}

	w.warn("NoSandbox", "This machine allows no user namespaces: the container sees the machine's files")
	w.withoutSandbox(pod, &cmd)
	return child.Start(ctx, cmd)
}

// forbidden reports whether an error means that the machine allows no user namespaces.
func forbidden(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) &&
		slices.Contains([]syscall.Errno{syscall.EPERM, syscall.EINVAL, syscall.ENOSPC, syscall.ENOSYS}, errno)
}

const serviceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// withoutSandbox prepares a program that sees the machine's files. In arguments and environment, each mount path
// becomes the volume's path on this machine. A kubeconfig replaces the in-cluster configuration, whose paths are
// fixed.
func (w *worker) withoutSandbox(pod *corev1.Pod, cmd *child.Command) {
	must.Be(cmd.Path == w.program, "exec: %q: the image contains only %s", cmd.Path, w.program)
	for _, texts := range [][]string{cmd.Args, cmd.Env} {
		for i, text := range texts {
			for _, m := range pod.Spec.Containers[0].VolumeMounts {
				if at := strings.Index(text, m.MountPath); at == 0 ||
					at > 0 && strings.ContainsRune("=:,", rune(text[at-1])) {
					texts[i] = text[:at] + filepath.Join(w.root, m.MountPath) + text[at+len(m.MountPath):]
					break
				}
			}
		}
	}

	if _, err := os.Stat(filepath.Join(w.root, serviceAccountDir)); err == nil {
		kubeconfig := filepath.Join(filepath.Dir(w.root), "in-cluster.kubeconfig")
		const all = "system:serviceaccounts"
		user := "system:serviceaccount:" + pod.Namespace + ":" + pod.Spec.ServiceAccountName
		text := must.Get(w.node.o.ControlPlane.KubeconfigOf(user, all, all+":"+pod.Namespace))
		must.OK(os.WriteFile(kubeconfig, text, 0o600))
		cmd.Args = append(cmd.Args, "--kubeconfig="+kubeconfig)
	}

	cmd.Path, cmd.Dir = w.binary, w.root
}

// environment returns a container's environment variables: those of the node, then the container's own, each of which
// may refer to earlier ones.
func (w *worker) environment(pod *corev1.Pod) map[string]string {
	server := w.node.o.ControlPlane
	values := map[string]string{
		"PATH":     "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOSTNAME": pod.Name,
		// There is no kube-proxy for the kubernetes Service, so these name the API server itself.
		"KUBERNETES_SERVICE_HOST": server.Host,
		"KUBERNETES_SERVICE_PORT": fmt.Sprint(server.Port),
	}
	for _, e := range pod.Spec.Containers[0].Env {
		value := expand(e.Value, values)
		if from := e.ValueFrom; from != nil {
			must.Be(from.FieldRef != nil, "environment variable %s: process nodes support only fieldRef", e.Name)
			value = w.fieldValue(pod, from.FieldRef.FieldPath)
		}
		values[e.Name] = value
	}
	return values
}

// fieldValue returns the value of a downward API field.
func (w *worker) fieldValue(pod *corev1.Pod, path string) string {
	value, ok := map[string]string{
		"metadata.name":      pod.Name,
		"metadata.namespace": pod.Namespace,
		"status.podIP":       w.podIP,
	}[path]
	must.Be(ok, "process nodes do not support the field %q", path)
	return value
}

// expand replaces $(NAME) by the variable's value. References to unknown variables remain unchanged.
func expand(text string, values map[string]string) string {
	for name, value := range values {
		text = strings.ReplaceAll(text, "$("+name+")", value)
	}
	return text
}

// buildRoot creates the container's root directory: the program, /tmp and the files in /etc that every container
// runtime adds.
func (w *worker) buildRoot() {
	removeAll(w.root)
	dirs := []string{"etc"}
	if !w.readOnly() {
		dirs = append(dirs, "tmp")
	}

	for _, dir := range dirs {
		must.OK(os.MkdirAll(filepath.Join(w.root, dir), 0o700))
	}

	hosts := fmt.Sprintf("127.0.0.1\tlocalhost\n::1\tlocalhost\n%s\t%s\n", w.podIP, w.latest().Name)
	must.OK(os.WriteFile(filepath.Join(w.root, "etc", "hosts"), []byte(hosts), 0o600))
	if resolv, err := os.ReadFile("/etc/resolv.conf"); err == nil {
		// #nosec G703 -- a container's root
		must.OK(os.WriteFile(filepath.Join(w.root, "etc", "resolv.conf"), resolv, 0o600))
	}

	program := filepath.Join(w.root, w.program)
	if os.Link(w.binary, program) == nil {
		return
	}

	// A child process that is forked meanwhile inherits the open file until it calls exec. Until then the program
	// could not be executed (ETXTBSY).
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	must.OK(os.WriteFile(program, must.Get(os.ReadFile(w.binary)), 0o700)) // #nosec G306 -- a program
}

// sealRoot makes the root directory read-only for containers with readOnlyRootFilesystem.
func (w *worker) sealRoot() {
	if w.readOnly() {
		must.OK(os.Chmod(w.root, 0o500)) // #nosec G302 -- a folder
	}
}

func (w *worker) readOnly() bool {
	return ptr.Deref(ptr.Deref(w.container().SecurityContext, corev1.SecurityContext{}).ReadOnlyRootFilesystem, false)
}
