// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Progress is the state of a build of the control plane.
type Progress struct {
	// Release is the release of Kubernetes that is built.
	Release string
	Elapsed time.Duration
	// Waiting is true while another process builds the same binary.
	Waiting bool
	// Finished is true in the last report of a build that succeeded.
	Finished bool
	// Done counts the compiled packages of Total. Total is 0 while modules are downloaded.
	Done, Total int
}

func (p Progress) String() string {
	switch took := p.Elapsed.Round(time.Second); {
	case p.Waiting:
		return fmt.Sprintf("another process builds it, waiting (%s)", took)
	case p.Total == 0:
		return fmt.Sprintf("fetching Go modules (%s)", took)
	case p.Done >= p.Total:
		return fmt.Sprintf("%d of %d packages, linking (%s)", p.Total, p.Total, took)
	default:
		return fmt.Sprintf("%d of %d packages (%s)", p.Done, p.Total, took)
	}
}

// ModuleDir returns the folder of the test module: it looks in the working directory and its parents.
func ModuleDir() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		for _, module := range []string{dir, filepath.Join(dir, "test")} {
			if _, err := os.Stat(filepath.Join(module, Newest.sourceDir(), "main.go")); err == nil {
				return module, nil
			}
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not inside a checkout of csccm: no test/%s here or above", wd, Newest.sourceDir())
		}
	}
}

// Cached returns the path of a minor's binary, which depends on the sources and the
// Go version of this checkout, and reports whether it exists.
func Cached(ctx context.Context, minor Minor) (path string, there bool, err error) {
	module, err := ModuleDir()
	if err != nil {
		return "", false, err
	}
	dir, err := cacheDir(ctx, module, minor)
	if err != nil {
		return "", false, err
	}
	path = filepath.Join(dir, "plane")
	_, err = os.Stat(path)
	return path, err == nil, nil
}

// Ensure returns the path of a minor's binary. It builds the binary when it does not
// exist, which takes minutes. When several processes call Ensure at the same time, one
// builds and the others wait. Meanwhile report is called about once a second; it may
// be nil.
func Ensure(ctx context.Context, minor Minor, report func(Progress)) (string, error) {
	path, there, err := Cached(ctx, minor)
	if err != nil || there {
		return path, err
	}
	send := func(p Progress) {
		if report != nil {
			p.Release = minor.Release()
			report(p)
		}
	}
	cache := filepath.Dir(filepath.Dir(path))
	if err := os.MkdirAll(cache, 0o750); err != nil {
		return "", err
	}
	start := time.Now()
	unlock, err := Lock(ctx, filepath.Join(cache, minor.Release()+".lock"), func() {
		send(Progress{Elapsed: time.Since(start), Waiting: true})
	})
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	module, err := ModuleDir()
	if err != nil {
		return "", err
	}
	if err := build(ctx, module, minor, path, send); err != nil {
		return "", fmt.Errorf("build the control plane (Kubernetes %s): %w", minor.Release(), err)
	}
	send(Progress{Elapsed: time.Since(start), Finished: true})
	return path, nil
}

// cacheDir returns the folder of the binary. Its name depends on everything that the
// binary is built from.
func cacheDir(ctx context.Context, module string, minor Minor) (string, error) {
	if _, err := ParseMinor(string(minor)); err != nil {
		return "", err
	}
	source := filepath.Join(module, minor.sourceDir())
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder for the control plane: %w", err)
	}
	sum := sha256.New()
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		b, err := os.ReadFile(filepath.Join(source, name)) // #nosec G304 -- files of this checkout
		if err != nil {
			return "", err
		}
		_, _ = fmt.Fprintf(sum, "%s %d\n%s", name, len(b), b)
	}
	goVersion, err := goOutput(ctx, source, "env", "GOVERSION")
	if err != nil {
		return "", err
	}
	key := fmt.Sprintf("%s-%s-%x", minor.Release(), strings.TrimSpace(goVersion), sum.Sum(nil)[:6])
	return filepath.Join(base, "csccm", "plane", key), nil
}

// build compiles with its own build cache: Kubernetes would add gigabytes to the
// user's. The cache is removed after a success and kept after a failure, so that the
// next attempt continues from there.
func build(ctx context.Context, module string, minor Minor, path string, report func(Progress)) error {
	source := filepath.Join(module, minor.sourceDir())
	cache := filepath.Dir(filepath.Dir(path))
	goCache := filepath.Join(cache, "gocache-"+minor.Release())
	work, err := os.MkdirTemp(cache, "build-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()

	var done, total atomic.Int64
	start := time.Now()
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			report(Progress{Elapsed: time.Since(start), Done: int(done.Load()), Total: int(total.Load())})
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	defer func() { close(stop); <-ended }()

	list, err := goOutput(ctx, source, "list", "-mod=readonly", "-deps", ".")
	if err != nil {
		return err
	}
	total.Store(int64(strings.Count(list, "\n")))

	cmd := goCommand(ctx, source, "build", "-v", "-mod=readonly", "-trimpath", "-buildvcs=false",
		"-ldflags", ldflags(minor), "-o", filepath.Join(work, "plane"), ".")
	cmd.Env = append(cmd.Env, "GOCACHE="+goCache)
	// -v prints each package when it is compiled; any other line is part of an error.
	out, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	// A lower priority, so that the machine stays usable during the build.
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, cmd.Process.Pid, 10)
	failure := countPackages(out, &done)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("go build: %w\n%s", errors.Join(ctx.Err(), err), failure)
	}
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		return err
	}
	if err := os.Chmod(work, 0o750); err != nil { // #nosec G302 -- a folder
		return err
	}
	if err := os.Rename(work, filepath.Dir(path)); err != nil {
		return err
	}
	return os.RemoveAll(goCache)
}

// countPackages counts the lines that are package paths and returns the last 20 of the other lines.
func countPackages(r io.Reader, n *atomic.Int64) string {
	var other []string
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "go: downloading "):
		case strings.HasPrefix(line, "#"), strings.ContainsAny(line, " :"):
			other = append(other, line)
		default:
			n.Add(1)
		}
	}
	return strings.Join(other[max(0, len(other)-20):], "\n")
}

// ldflags returns linker flags that set the release: without them the programs report
// a development version, which charts with a kubeVersion refuse.
func ldflags(minor Minor) string {
	_, number, _ := strings.Cut(string(minor), ".")
	var b strings.Builder
	b.WriteString("-s -w")
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, v := range [][2]string{
			{"gitVersion", minor.Release()}, {"gitMajor", "1"}, {"gitMinor", number}, {"gitTreeState", "archive"},
			{"gitCommit", "module-proxy"}, {"buildDate", "1970-01-01T00:00:00Z"},
		} {
			_, _ = fmt.Fprintf(&b, " -X %s.%s=%s", pkg, v[0], v[1])
		}
	}
	return b.String()
}

func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...) // #nosec G204 -- fixed arguments
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	return cmd
}

func goOutput(ctx context.Context, dir string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := goCommand(ctx, dir, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, errs.String())
	}
	return out.String(), nil
}

// Lock takes an exclusive lock on a file; the kernel releases it when the process
// ends. waiting is called about once a second while another process holds the lock.
func Lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, fs.FileMode(0o600)) // #nosec G304 -- in our cache folder
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		waiting()
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}
