// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/sync/errgroup"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/internal/program"
)

// publisher is where released programs are published.
type publisher struct {
	// kubernetes is the URL of the folder of all releases. In it, VERSION/bin/OS/ARCH has the programs, each with its
	// .sha256.
	kubernetes string
	// etcd is the URL of the folder of all releases. In it, VERSION has the archives and SHA256SUMS.
	etcd string
	// patience is the time limit for the server's first answer, silence the time limit for a download without
	// progress.
	patience, silence time.Duration
}

// official is where Kubernetes and etcd publish their programs. The sums come from the same servers over TLS, so they
// only prove that a download is complete.
var official = publisher{
	kubernetes: "https://dl.k8s.io/release",
	etcd:       "https://github.com/etcd-io/etcd/releases/download",
	patience:   2 * time.Second,
	silence:    15 * time.Second,
}

// controlPlane are the programs of Kubernetes that a control plane needs.
var controlPlane = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"}

// fetcher returns a function for program.Program.Released that downloads released programs of a minor to a folder. If
// the environment has CSCCM_BUILD=1, it downloads nothing.
func (p publisher) fetcher(minor Minor, names ...string) func(context.Context, string, func(string)) error {
	return func(ctx context.Context, dir string, report func(string)) (err error) {
		defer must.Return(&err)
		if os.Getenv("CSCCM_BUILD") == "1" || runtime.GOOS != "linux" {
			return program.ErrUnreachable
		}
		folder := fmt.Sprintf("%s/%s/bin/linux/%s/", p.kubernetes, minor.Release(), runtime.GOARCH)
		must.OK(p.reach(ctx, folder+controlPlane[0]+".sha256"))

		var one sync.Mutex
		d := download{publisher: p, report: func(state string) {
			one.Lock()
			defer one.Unlock()
			report(state)
		}}
		all, ctx := errgroup.WithContext(ctx)
		for _, name := range names {
			all.Go(func() error {
				if name == "etcd" {
					return d.archived(ctx, minor, dir)
				}
				sum, err := d.text(ctx, folder+name+".sha256")
				if err != nil {
					return err
				}
				return d.file(ctx, folder+name, strings.TrimSpace(sum), func(body io.Reader) error {
					return write(filepath.Join(dir, name), body)
				})
			})
		}
		return all.Wait()
	}
}

// reach sends a HEAD request for a file. It returns ErrUnreachable if the server does not answer within the patience.
func (p publisher) reach(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, p.patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, url, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return errors.Join(program.ErrUnreachable, err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: %s: %s", program.ErrUnreachable, url, answer.Status)
	}
	return nil
}

// download is the download of one minor's programs.
type download struct {
	publisher
	report func(string)
	bytes  atomic.Int64
}

// archived downloads the archive of etcd in the version that the minor is built with.
func (d *download) archived(ctx context.Context, minor Minor, dir string) (err error) {
	defer must.Return(&err)
	version := must.Get(etcdVersion(minor))
	archive := fmt.Sprintf("etcd-%s-linux-%s", version, runtime.GOARCH)
	var sum string
	for line := range strings.Lines(must.Get(d.text(ctx, fmt.Sprintf("%s/%s/SHA256SUMS", d.etcd, version)))) {
		if of, name, _ := strings.Cut(strings.TrimSpace(line), "  "); name == archive+".tar.gz" {
			sum = of
		}
	}

	return d.file(ctx, fmt.Sprintf("%s/%s/%s.tar.gz", d.etcd, version, archive), sum, func(body io.Reader) error {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return err
		}
		for files := tar.NewReader(unzipped); ; {
			head, err := files.Next()
			if err != nil {
				return fmt.Errorf("%s.tar.gz has no etcd: %w", archive, err)
			}
			if head.Name == archive+"/etcd" {
				return write(filepath.Join(dir, "etcd"), files)
			}
		}
	})
}

// etcdVersion returns the version of etcd in the go.mod of a minor's module.
func etcdVersion(minor Minor) (_ string, err error) {
	defer must.Return(&err)
	file := filepath.Join(must.Get(ModuleDir()), "plane", minor.Folder(), "go.mod")
	text := must.Get(os.ReadFile(file)) // #nosec G304 -- of this checkout
	for _, required := range must.Get(modfile.Parse(file, text, nil)).Require {
		if required.Mod.Path == "go.etcd.io/etcd/server/v3" {
			return required.Mod.Version, nil
		}
	}
	return "", fmt.Errorf("%s requires no etcd", file)
}

// text downloads a short file.
func (d *download) text(ctx context.Context, url string) (string, error) {
	var text []byte
	err := d.get(ctx, url, func(body io.Reader) (err error) {
		text, err = io.ReadAll(io.LimitReader(body, 1<<20))
		return err
	})
	return string(text), err
}

// file downloads a file and compares its SHA-256 sum with the published one.
func (d *download) file(ctx context.Context, url, sum string, use func(io.Reader) error) error {
	found := sha256.New()
	err := d.get(ctx, url, func(body io.Reader) error {
		body = io.TeeReader(body, found)
		if err := use(body); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, body) // what follows the file in an archive
		return err
	})
	if err == nil && hex.EncodeToString(found.Sum(nil)) != sum {
		err = fmt.Errorf("%s: the sum is %x, and %q is published", url, found.Sum(nil), sum)
	}
	return err
}

// get downloads a file. It fails if no byte arrives for the time silence.
func (d *download) get(ctx context.Context, url string, use func(io.Reader) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(d.silence, func() { cancel(fmt.Errorf("no byte for %s", d.silence)) })
	defer silent.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}

	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}

	progress := reader(func(p []byte) (int, error) {
		n, err := answer.Body.Read(p)
		silent.Reset(d.silence)
		d.report(fmt.Sprintf("downloading %s: %d MB", path.Base(url), d.bytes.Add(int64(n))>>20))
		return n, err
	})

	if err := use(progress); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", url, err), context.Cause(ctx))
	}

	return nil
}

// reader is a function that reads.
type reader func(p []byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }

// write writes a program to a file.
func write(file string, content io.Reader) (err error) {
	defer must.Return(&err)
	// #nosec G302 G304 -- a program, in our cache
	f := must.Get(os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700))
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}
