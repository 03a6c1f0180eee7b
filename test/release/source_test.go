// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

// source is a copy of this checkout in its own git repository, with the keys that sign its releases.
type source struct {
	shell
	root, work           string
	keyring              string // keyring for the chart's provenance file
	key, public, signing string // of cosign, in a rehearsal
}

const password = "not-a-secret-of-anybody"

// helm builds helm once for all tests and returns its path.
var helm = sync.OnceValues(func() (string, error) { return testenv.Helm(context.Background(), os.Stderr) })

func newSource(t *testing.T) *source {
	t.Helper()
	if testing.Short() {
		t.Skip("with -short: this test makes releases, and builds the control plane and helm when they are not cached")
	}

	program, err := helm()
	require.NoError(t, err)
	module, err := plane.ModuleDir()
	require.NoError(t, err)
	root, work := filepath.Dir(module), t.TempDir()
	bin, passphrase := filepath.Join(root, "bin"), filepath.Join(work, "passphrase")
	secret, public := pgp(t, work, "release")
	require.NoError(t, os.WriteFile(passphrase, []byte(password), 0o600))
	s := &source{root: root, work: work, keyring: public, shell: shell{
		t: t, dir: filepath.Join(work, "tree"),
		programs: map[string]string{
			"helm":   program,
			"cosign": filepath.Join(bin, "cosign"),
			"crane":  filepath.Join(bin, "crane"),
		},
		// Without cgo, like the product, so that both use the same entries of the build cache.
		env: append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-trimpath -gcflags=all=-dwarf=false",
			"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "COSIGN_PASSWORD="+password,
			"PATH="+filepath.Dir(program)+":"+bin+":"+os.Getenv("PATH"),
			"CHART_SIGN=--sign --key release --keyring "+secret+" --passphrase-file "+passphrase),
	}}

	require.NoError(t, os.Mkdir(s.dir, 0o750))

	// All files that git would commit, without test/, which a release does not need.
	s.run("sh", "-c", `cd "$0" && git ls-files -z --cached --others --exclude-standard -- . ':!test' |
		tar --null --files-from=- --ignore-failed-read -cf - | tar -xf - -C "$1"`, root, s.dir)
	s.git("init", "-q")
	s.git("remote", "add", "origin", "https://github.com/csccm/csccm") // goreleaser asks for its name
	return s
}

// pgp creates a key for the chart's provenance. It returns the paths of two keyrings: one with the secret key and one
// with the public key.
func pgp(t *testing.T, dir, name string) (secret, public string) {
	t.Helper()
	secret, public = filepath.Join(dir, name+".secret.pgp"), filepath.Join(dir, name+".pgp")
	require.NoError(t, must.Catch(func() {
		var open, closed bytes.Buffer
		entity := must.Get(openpgp.NewEntity(name, "", "release@example.org", nil))
		must.OK(entity.Serialize(&open))
		must.OK(entity.EncryptPrivateKeys([]byte(password), nil))
		must.OK(entity.SerializePrivateWithoutSigning(&closed, nil))
		must.OK(os.WriteFile(secret, closed.Bytes(), 0o600))
		must.OK(os.WriteFile(public, open.Bytes(), 0o600))
	}))
	return secret, public
}

func (s *source) git(args ...string) {
	s.t.Helper()
	s.run("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
}

// changelog replaces CHANGELOG.md.
func (s *source) changelog(text string) {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(filepath.Join(s.dir, "CHANGELOG.md"), []byte("# Changelog\n\n"+text), 0o600))
}

// tag commits the tree and tags the commit.
func (s *source) tag(version string) {
	s.t.Helper()
	s.git("add", "-A")
	s.git("commit", "-q", "--allow-empty", "-m", version)
	s.git("tag", "v"+version)
	fmt.Fprintf(&s.text, "\n$ git tag v%s\n", version)
}

// publish makes and publishes the tagged version and returns the digest of the controller's image.
func (s *source) publish(host string) (digest string) {
	s.t.Helper()
	version := strings.TrimSpace(s.run("git", "describe", "--tags"))
	image := host + "/csccm/" + name + ":" + version
	if *rehearse {
		s.step("release/steps", "all")
		return strings.TrimSpace(s.step("crane", "digest", image))
	}

	// The image contains only the program.
	program := filepath.Join(s.work, name)
	flags := "-s -w -X github.com/csccm/csccm/pkg/version.Version=" + version
	s.run("go", "build", "-buildvcs=false", "-ldflags", flags, "-o", program, "./cmd/"+name)
	require.NoError(s.t, must.Catch(func() {
		layers := must.Get(crane.Image(map[string][]byte{name: must.Get(os.ReadFile(program))}))
		must.OK(crane.Push(layers, image, crane.Insecure))
		digest = must.Get(layers.Digest()).String()
	}))

	s.env = append(s.env, "IMAGE_DIGEST="+digest, "UNSIGNED=true")
	s.step("release/steps", "package")
	s.step("release/steps", "publish")
	return digest
}
