// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/test/internal/program"
)

// TestReleasedPrograms: programs are downloaded with the layout of the official places and compared with their sums.
// If the place cannot be reached or does not answer soon, the error says so, and the programs are built instead.
func TestReleasedPrograms(t *testing.T) {
	t.Parallel()
	version, err := etcdVersion(Newest)
	require.NoError(t, err)
	files := map[string]string{}
	folder := fmt.Sprintf("/kubernetes/%s/bin/linux/%s/", Newest.Release(), runtime.GOARCH)
	for _, name := range controlPlane {
		files[folder+name] = "program " + name
		files[folder+name+".sha256"] = sum("program " + name)
	}
	name := fmt.Sprintf("etcd-%s-linux-%s", version, runtime.GOARCH)
	archive := archiveOf(t, name+"/etcd", "program etcd")
	files["/etcd/"+version+"/"+name+".tar.gz"] = archive
	files["/etcd/"+version+"/SHA256SUMS"] = sum("other") + "  other.tar.gz\n" + sum(archive) + "  " + name + ".tar.gz\n"

	for what, c := range map[string]struct {
		change      func(files map[string]string)
		address     string
		silent      string // a path that is never answered
		unreachable bool
		says        string
	}{
		"all is there": {},
		"another program": {
			change: func(f map[string]string) { f[folder+"kubectl"] = "something else" },
			says:   "kubectl: the sum is",
		},
		"another archive": {
			change: func(f map[string]string) { f["/etcd/"+version+"/SHA256SUMS"] = "" },
			says:   "etcd",
		},
		"a download stops": {silent: folder + "kube-scheduler", says: "no byte for"},
		"no answer":        {silent: folder + "kube-apiserver.sha256", unreachable: true},
		"no such release":  {change: func(f map[string]string) { clear(f) }, unreachable: true},
		"nobody listens":   {address: "http://127.0.0.1:1", unreachable: true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			served := map[string]string{}
			for path, text := range files {
				served[path] = text
			}
			if c.change != nil {
				c.change(served)
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == c.silent {
					<-r.Context().Done()
					return
				}
				text, ok := served[r.URL.Path]
				if !ok {
					http.NotFound(w, r)
					return
				}
				_, _ = w.Write([]byte(text))
			}))
			t.Cleanup(server.Close)
			at := server.URL
			if c.address != "" {
				at = c.address
			}
			p := publisher{
				kubernetes: at + "/kubernetes",
				etcd:       at + "/etcd",
				patience:   time.Minute,
				silence:    time.Minute,
			}
			if c.silent != "" {
				p.patience, p.silence = 200*time.Millisecond, 200*time.Millisecond
			}

			dir := t.TempDir()
			err := p.fetcher(Newest, append([]string{"etcd"}, controlPlane...)...)(t.Context(), dir, func(string) {})
			if c.unreachable || c.says != "" {
				require.ErrorContains(t, err, c.says)
				assert.Equal(t, c.unreachable, errors.Is(err, program.ErrUnreachable))
				return
			}
			require.NoError(t, err)
			for _, name := range append([]string{"etcd"}, controlPlane...) {
				text, err := os.ReadFile(filepath.Join(dir, name))
				require.NoError(t, err)
				assert.Equal(t, "program "+name, string(text))
			}
		})
	}
}

func sum(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

func archiveOf(t *testing.T, name, text string) string {
	t.Helper()
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	files := tar.NewWriter(zipped)
	require.NoError(t, files.WriteHeader(&tar.Header{Name: path.Dir(name) + "/", Typeflag: tar.TypeDir}))
	require.NoError(t, files.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))}))
	_, err := files.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, files.Close())
	require.NoError(t, zipped.Close())
	return b.String()
}
