// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package program builds programs of other Go modules, which take minutes to compile, and caches them in the user's
// cache folder.
package program

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/csccm/csccm/test/internal/must"
)

// Program is one or more programs that are built from a Go module.
type Program struct {
	// What is the name of the program in messages, such as "helm".
	What string
	// Takes is how long a build takes on two cores, such as "3 to 8 minutes".
	Takes string
	// Name is the name of the file, Folder the folder in the cache, and Release the release that is built.
	Name, Folder, Release string
	// Source is the folder of the module. The cache key depends on each file in it.
	Source string
	// Packages are the paths of the packages to build. Each program is named after the last element of its path.
	Packages []string
	// Links are symbolic links to these files, by name, for programs that act according to their name.
	Links map[string]string
	// Released downloads programs that were built elsewhere into a folder; nil if there are none. It returns
	// ErrUnreachable if the place of the released programs cannot be reached from here.
	Released func(ctx context.Context, dir string, report func(state string)) error
	// LDFlags are flags of the linker.
	LDFlags string
	// OwnCache compiles into a cache that is removed afterwards. Use it for a program that shares few packages with
	// this checkout: it would add gigabytes to the user's cache.
	OwnCache bool
}

// ErrUnreachable is returned by Program.Released if the place of the released programs does not answer soon.
var ErrUnreachable = errors.New("cannot be reached")

// Cached returns the path of the program and reports whether it exists. The path depends on the sources and the Go
// version.
func (p Program) Cached(ctx context.Context) (path string, there bool, err error) {
	defer must.Return(&err)
	dir := must.Get(p.cacheDir(ctx))
	path = filepath.Join(dir, p.Name)
	_, err = os.Stat(path)
	return path, err == nil, nil
}

// Ensure returns the path of the program. If it does not exist, Ensure builds it, which takes minutes, and writes the
// progress to out. If several processes call Ensure at the same time, one builds and the others wait.
func (p Program) Ensure(ctx context.Context, out io.Writer) (_ string, err error) {
	defer must.Return(&err)
	path, there := must.Get2(p.Cached(ctx))
	if there {
		return path, nil
	}

	cache, report := filepath.Dir(filepath.Dir(path)), printer(out)
	must.OK(os.MkdirAll(cache, 0o750))
	unlock := must.Get(Lock(ctx, filepath.Join(cache, p.Release+".lock"),
		func() { report(false, "waiting for another process, which builds it") }))
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}

	if p.fetch(ctx, filepath.Dir(path), out, report) {
		report(true, "fetched")
		return path, nil
	}

	_, _ = fmt.Fprintf(out, "Building %s from source. This takes %s, once; the result is cached.\n", p.What, p.Takes)
	return path, p.build(ctx, filepath.Dir(path), out)
}

// fetch downloads the released program and reports whether that succeeded. It prints errors, except ErrUnreachable.
func (p Program) fetch(ctx context.Context, dir string, out io.Writer, report func(last bool, state string)) bool {
	if p.Released == nil {
		return false
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "fetch-")
	if err == nil {
		err = p.Released(ctx, work, func(state string) { report(false, state) })
	}
	if err == nil {
		err = place(work, dir)
	}
	_ = os.RemoveAll(work)
	if err != nil && !errors.Is(err, ErrUnreachable) {
		_, _ = fmt.Fprintf(out, "%s: what was released cannot be used: %v\n", p.What, err)
	}
	return err == nil
}

// place moves a finished folder to its place in the cache.
func place(work, dir string) (err error) {
	defer must.Return(&err)
	must.OK(os.RemoveAll(dir))
	must.OK(os.Chmod(work, 0o750)) // #nosec G302 -- a folder
	return os.Rename(work, dir)
}

// cacheDir returns the folder of the program in the cache. Its name depends on everything that the program is built
// from.
func (p Program) cacheDir(ctx context.Context) (_ string, err error) {
	defer must.Return(&err)
	base := must.Get(os.UserCacheDir())
	source, sum := os.DirFS(p.Source), sha256.New()
	must.OK(fs.WalkDir(source, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b := must.Get(fs.ReadFile(source, path))
		_, err = fmt.Fprintf(sum, "%s %d\n%s", path, len(b), b)
		return err
	}))
	goVersion := must.Get(Go(ctx, p.Source, "env", "GOVERSION"))
	key := fmt.Sprintf("%s-%s-%x", p.Release, strings.TrimSpace(goVersion), sum.Sum(nil)[:6])
	return filepath.Join(base, "csccm", p.Folder, key), nil
}

// build compiles the program. Its own cache is removed after a success and kept after a failure, so that the next
// attempt continues from there.
func (p Program) build(ctx context.Context, dir string, out io.Writer) (err error) {
	defer must.Return(&err)
	cache := filepath.Dir(dir)
	work := must.Get(os.MkdirTemp(cache, "build-"))
	defer func() { _ = os.RemoveAll(work) }()

	must.OK(p.Compile(ctx, work, out))
	for name, file := range p.Links {
		must.OK(os.Symlink(file, filepath.Join(work, name)))
	}
	must.OK(place(work, dir))
	return os.RemoveAll(p.goCache(cache))
}

// goCache returns the folder of the program's own cache.
func (p Program) goCache(cache string) string { return filepath.Join(cache, "gocache-"+p.Release) }

// Compile compiles the programs into a folder, and writes the progress to out.
func (p Program) Compile(ctx context.Context, dir string, out io.Writer) (err error) {
	defer must.Return(&err)
	report := printer(out)
	report(false, "fetching Go modules")
	list := append([]string{"list", "-deps"}, p.Packages...)
	total := strings.Count(must.Get(Go(ctx, p.Source, list...)), "\n")
	args := []string{
		"build", "-v", "-trimpath", "-buildvcs=false",
		"-ldflags", p.LDFlags, "-o", dir + string(filepath.Separator),
	}
	cmd := goCommand(ctx, p.Source, append(args, p.Packages...)...)
	if p.OwnCache {
		cmd.Env = append(cmd.Env, "GOCACHE="+p.goCache(filepath.Dir(dir)))
	}
	// -v prints each package when it is compiled. Any other line is part of an error.
	lines := must.Get(cmd.StderrPipe())
	must.OK(cmd.Start())
	// A lower priority, so that the machine stays usable during the build.
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, cmd.Process.Pid, 10)
	failure := follow(lines, func(done int) { report(false, fmt.Sprintf("%d of at most %d packages", done, total)) })
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", p.What, errors.Join(ctx.Err(), err), failure)
	}
	report(true, "built")
	return nil
}

// follow counts the lines that are package paths and returns the last 20 of the other lines.
func follow(r io.Reader, report func(done int)) string {
	var other []string
	done, lines := 0, bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "go: downloading "):
		case strings.HasPrefix(line, "#"), strings.ContainsAny(line, " :"):
			other = append(other, line)
		default:
			done++
			report(done)
		}
	}
	return strings.Join(other[max(0, len(other)-20):], "\n")
}

func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...) // #nosec G204 -- fixed arguments
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	return cmd
}

// Go runs the go command in a folder, without cgo, and returns its output.
func Go(ctx context.Context, dir string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := goCommand(ctx, dir, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, errs.String())
	}
	return out.String(), nil
}

// Module writes a generated module into the cache, adds what the packages import to its go.mod, and returns its
// folder, whose name depends on the files. The keys of files are paths in the module.
func Module(ctx context.Context, folder, release string, files map[string][]byte, packages ...string) string {
	base := filepath.Join(must.Get(os.UserCacheDir()), "csccm", folder)
	must.OK(os.MkdirAll(base, 0o750))
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		_, _ = fmt.Fprintf(sum, "%s %d\n%s", name, len(files[name]), files[name])
	}
	dir := filepath.Join(base, fmt.Sprintf("module-%s-%x", release, sum.Sum(nil)[:6]))
	if _, err := os.Stat(dir); err == nil {
		return dir
	}

	work := must.Get(os.MkdirTemp(base, "module-"))
	for name, content := range files {
		path := filepath.Join(work, name)
		must.OK(os.MkdirAll(filepath.Dir(path), 0o750))
		must.OK(os.WriteFile(path, content, 0o600))
	}
	must.Get(Go(ctx, work, append([]string{"list", "-mod=mod", "-deps"}, packages...)...))
	must.OK(place(work, dir))
	return dir
}

// Lock takes an exclusive lock on a file. The kernel releases it when the process ends. waiting is called about once a
// second while another process holds the lock.
func Lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, fs.FileMode(0o600)) // #nosec G304 -- in our cache folder
	if err != nil {
		return nil, err
	}
	err = wait.PollUntilContextCancel(ctx, time.Second, true, func(context.Context) (bool, error) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			waiting()
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, errors.Join(err, f.Close()))
	}
	return func() { _ = f.Close() }, nil
}

// printPeriod is the time between lines if the output is not a terminal, on which a line can be redrawn.
const printPeriod = 15 * time.Second

// printer returns a function that prints the state of a build. On a terminal it redraws one line; otherwise it prints
// a line every printPeriod, and the last one.
func printer(out io.Writer) func(last bool, state string) {
	f, ok := out.(*os.File)
	terminal := ok && term.IsTerminal(int(f.Fd())) // #nosec G115 -- a descriptor fits
	start, said := time.Now(), time.Time{}
	return func(last bool, state string) {
		line, end := fmt.Sprintf("  %s (%s)", state, time.Since(start).Round(time.Second)), "\n"
		if terminal {
			line = "\r\033[K" + line
			if !last {
				end = ""
			}
		} else if !last && time.Since(said) < printPeriod {
			return
		}
		said = time.Now()
		_, _ = fmt.Fprint(out, line, end)
	}
}
