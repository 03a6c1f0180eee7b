// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/internal/must"
)

// sandbox remembers which kind of sandbox this machine allows; the first start of a
// container finds out.
type sandbox struct {
	mu   sync.Mutex
	kind sandboxKind
}

type sandboxKind string

const (
	unknownSandbox sandboxKind = ""
	// chrootSandbox: this process is root and runs the container's process by chroot, as the Pod's user.
	chrootSandbox sandboxKind = "chroot"
	// userSandbox: chroot in a user namespace, for ordinary users.
	userSandbox sandboxKind = "user namespace"
	// plainSandbox: the machine allows neither. The process sees the machine's files; the
	// paths of volumes in its arguments are replaced by their paths on the machine.
	plainSandbox sandboxKind = "no sandbox"
)

// candidates returns the kinds to try, the best first.
func (s *sandbox) candidates() []sandboxKind {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.kind != unknownSandbox:
		return []sandboxKind{s.kind}
	case os.Geteuid() == 0:
		return []sandboxKind{chrootSandbox, userSandbox, plainSandbox}
	default:
		return []sandboxKind{userSandbox, plainSandbox}
	}
}

func (s *sandbox) settle(kind sandboxKind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kind = kind
}

// launch describes the start of a container.
type launch struct {
	name string
	// hostname is the Pod's; empty means the machine's.
	hostname string
	root     string
	img      image
	args     []string // command and arguments, expanded
	env      []string
	dir      string // working directory in the container
	id       identity
	log      string
	// mounts are the container's mount paths, and kubeconfig writes its in-cluster
	// configuration. Only plainSandbox uses them.
	mounts     []string
	kubeconfig func() (string, error)
}

// start starts a container in the best sandbox that this machine allows.
func (s *sandbox) start(ctx context.Context, l launch) (*child.Process, sandboxKind, error) {
	var all error
	for _, kind := range s.candidates() {
		p, err := l.start(ctx, kind)
		if err == nil {
			s.settle(kind)
			return p, kind, nil
		}
		all = errors.Join(all, err)
		if !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.ENOSYS) {
			break
		}
	}
	return nil, unknownSandbox, all
}

func (l launch) start(ctx context.Context, kind sandboxKind) (_ *child.Process, err error) {
	defer must.Return(&err)
	c := child.Command{Name: l.name, Log: l.log, Env: l.env, Hostname: l.hostname}
	if kind == plainSandbox {
		return l.startPlain(ctx, c)
	}
	attr := must.Get(sandboxAttr(kind, l.root, l.id))
	c.Attr = attr
	c.Path, c.Args, c.Dir = l.args[0], l.args[1:], l.dir
	return child.Start(ctx, c)
}

// startPlain runs the program without chroot and replaces each mount path in arguments
// and environment by the volume's path on this machine.
func (l launch) startPlain(ctx context.Context, c child.Command) (_ *child.Process, err error) {
	defer must.Return(&err)
	if l.args[0] != l.img.path {
		return nil, fmt.Errorf("exec: %q: the image contains only %s: %w", l.args[0], l.img.path, fs.ErrNotExist)
	}
	rewrite := func(text string) string {
		for _, m := range l.mounts {
			if i := strings.Index(text, m); i == 0 || i > 0 && strings.ContainsRune("=:,", rune(text[i-1])) {
				return text[:i] + filepath.Join(l.root, m) + text[i+len(m):]
			}
		}
		return text
	}
	for _, arg := range l.args[1:] {
		c.Args = append(c.Args, rewrite(arg))
	}
	c.Env = make([]string, 0, len(l.env))
	for _, e := range l.env {
		c.Env = append(c.Env, rewrite(e))
	}
	kubeconfig := must.Get(l.kubeconfig())
	if kubeconfig != "" {
		c.Args = append(c.Args, "--kubeconfig="+kubeconfig)
	}
	c.Path, c.Dir = l.img.binary, l.root
	return child.Start(ctx, c)
}

// buildRoot creates a container's root directory: the program, /tmp and the files in
// /etc that every container runtime adds.
func buildRoot(root string, img image, pod *corev1.Pod, podIP string) error {
	for _, dir := range []string{"etc", "tmp"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil { // #nosec G301 -- a container's root
			return err
		}
	}
	hosts := fmt.Sprintf("127.0.0.1\tlocalhost\n::1\tlocalhost\n%s\t%s\n", podIP, pod.Name)
	for _, a := range pod.Spec.HostAliases {
		hosts += fmt.Sprintf("%s\t%s\n", a.IP, strings.Join(a.Hostnames, "\t"))
	}
	if err := os.WriteFile(filepath.Join(root, "etc", "hosts"), []byte(hosts), 0o644); err != nil { // #nosec G306 -- likewise
		return err
	}
	if resolv, err := os.ReadFile("/etc/resolv.conf"); err == nil {
		if err := os.WriteFile(filepath.Join(root, "etc", "resolv.conf"), resolv, 0o644); err != nil { // #nosec G306 G703 -- likewise
			return err
		}
	}
	program := filepath.Join(root, img.path)
	if os.Link(img.binary, program) == nil {
		return nil
	}
	return copyFile(img.binary, program)
}

// sealRoot makes the root directory read-only for containers with readOnlyRootFilesystem.
func sealRoot(root string, c *corev1.Container) error {
	if c.SecurityContext == nil || c.SecurityContext.ReadOnlyRootFilesystem == nil || !*c.SecurityContext.ReadOnlyRootFilesystem {
		return os.Chmod(filepath.Join(root, "tmp"), 0o777|fs.ModeSticky) // #nosec G302 -- /tmp of a container
	}
	mounted := false
	for _, m := range c.VolumeMounts {
		mounted = mounted || m.MountPath == "/tmp"
	}
	if !mounted {
		if err := os.Chmod(filepath.Join(root, "tmp"), 0o555); err != nil { // #nosec G302 -- likewise
			return err
		}
	}
	return os.Chmod(root, 0o555) // #nosec G302 -- likewise
}

func copyFile(from, to string) (err error) {
	// A child that is forked meanwhile would inherit the open file until it calls exec: the program could not be run
	// during that time (ETXTBSY).
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	in, err := os.Open(from) // #nosec G304 -- an image's program
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755) // #nosec G302 G304 -- a program
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}
