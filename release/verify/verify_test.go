// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/release/internal/sign"
	"github.com/csccm/csccm/release/verify"
)

func generate(t *testing.T) *sign.Key {
	t.Helper()
	key, err := sign.Generate()
	require.NoError(t, err)
	return key
}

// push pushes a random image for two platforms to a new registry.
func push(t *testing.T, options ...registry.Option) (image name.Digest, children []name.Digest) {
	t.Helper()
	server := httptest.NewServer(registry.New(append(options, registry.Logger(log.New(io.Discard, "", 0)))...))
	t.Cleanup(server.Close)
	index, err := random.Index(100, 1, 2)
	require.NoError(t, err)
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	for i := range manifest.Manifests {
		manifest.Manifests[i].Platform = &v1.Platform{OS: "linux", Architecture: []string{"amd64", "arm64"}[i]}
	}
	tag, err := name.NewTag(strings.TrimPrefix(server.URL, "http://") + "/csccm/x:v1")
	require.NoError(t, err)
	require.NoError(t, remote.WriteIndex(tag, index, remote.WithContext(t.Context())))
	digest, err := index.Digest()
	require.NoError(t, err)
	for _, child := range manifest.Manifests {
		children = append(children, tag.Digest(child.Digest.String()))
	}
	return tag.Digest(digest.String()), children
}

// Images are verified in registries with the referrers API and in those with the fallback tag.
func TestImage(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]registry.Option{
		"referrers API": {registry.WithReferrersSupport(true)},
		"fallback tag":  nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, other := generate(t), generate(t)
			image, children := push(t, options...)
			ref := image.Context().Tag("v1").String()
			with := verify.ImageOptions{Key: key.Public()}

			_, err := verify.Image(t.Context(), ref, with)
			require.EqualError(t, err, image.String()+": no signature")
			require.NoError(t, other.SignImage(t.Context(), image))
			_, err = verify.Image(t.Context(), ref, with)
			require.EqualError(t, err, image.String()+": no signature by this key (2 by other keys, or changed)")

			require.NoError(t, key.SignImage(t.Context(), image))
			require.NoError(t, key.SignImage(t.Context(), image), "signing twice gives one signature")
			for _, child := range children {
				require.NoError(t, key.SignImage(t.Context(), child))
				require.NoError(t, other.SignImage(t.Context(), child))
			}
			report, err := verify.Image(t.Context(), ref, with)
			require.NoError(t, err)
			assert.Equal(t, image.DigestStr(), report.Digest)
			assert.Len(t, report.Evidence, 2)

			with.Require = []string{"provenance"}
			_, err = verify.Image(t.Context(), ref, with)
			require.ErrorContains(t, err, "no provenance")
			require.NoError(t, key.AttestImage(t.Context(), image, verify.PredicateProvenance, map[string]any{"a": "b"}))
			report, err = verify.Image(t.Context(), ref, with)
			require.NoError(t, err)
			for _, e := range report.Evidence {
				if e.Kind == "provenance" {
					assert.JSONEq(t, `{"a":"b"}`, string(e.Statement.Predicate))
				}
			}
			// The signatures by the other key are kept.
			_, err = verify.Image(t.Context(), ref, verify.ImageOptions{Key: other.Public()})
			require.NoError(t, err)
		})
	}
}

// A signature of one image that is attached to another image does not count.
func TestEvidenceOfAnotherImage(t *testing.T) {
	t.Parallel()
	key := generate(t)
	image, children := push(t, registry.WithReferrersSupport(true))
	bundle, err := key.Attest(verify.PredicateSignature, map[string]any{}, sign.Subject(children[0]))
	require.NoError(t, err)
	require.NoError(t, sign.Attach(t.Context(), image, verify.BundleMediaType, bundle, nil))
	require.NoError(t, key.SignImage(t.Context(), children[0]))
	signatures, err := remote.Image(verify.SignatureTag(children[0]), remote.WithContext(t.Context()))
	require.NoError(t, err)
	require.NoError(t, remote.Write(verify.SignatureTag(image), signatures, remote.WithContext(t.Context())))
	require.NoError(t, sign.Attach(t.Context(), image, verify.BundleMediaType, []byte("no JSON"), nil))
	require.NoError(t, sign.Attach(t.Context(), image, "text/plain", []byte("other tools"), nil))

	_, err = verify.Image(t.Context(), image.String(), verify.ImageOptions{Key: key.Public()})
	require.EqualError(t, err, image.String()+": no signature by this key (3 by other keys, or changed)")
	_, err = verify.Image(t.Context(), image.String(), verify.ImageOptions{})
	require.EqualError(t, err, "no key to verify with")
	_, err = verify.Image(t.Context(), image.Context().Tag("none").String(), verify.ImageOptions{Key: key.Public()})
	require.ErrorContains(t, err, "MANIFEST_UNKNOWN")
}

// download writes files of a release to a directory.
func download(t *testing.T, key *sign.Key) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, data []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	write("a", []byte("a"))
	write("b", []byte("b"))
	sums := []byte("ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  a\n" +
		"3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d  b\n" +
		"2e7d2c03a9507ae265ecf5b5356885a53393a2029d241394997265a1a25aefc6  not-downloaded\n")
	write(verify.SumsFile, sums)
	signature, bundle, err := key.Blob(sums)
	require.NoError(t, err)
	write(verify.SumsSignature, []byte(base64.StdEncoding.EncodeToString(signature)))
	write(verify.SumsBundle, bundle)
	provenance, err := key.Attest(verify.PredicateProvenance, map[string]any{}, verify.Subject{
		Name: "a", Digest: map[string]string{"sha256": "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"},
	})
	require.NoError(t, err)
	write(verify.ProvenanceFile, provenance)
	return dir
}

func TestFiles(t *testing.T) {
	t.Parallel()
	key, other := generate(t), generate(t)
	edit := func(name string, change func(string) string) func(dir string) error {
		return func(dir string) error {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, name), []byte(change(string(text))), 0o600)
		}
	}
	remove := func(names ...string) func(dir string) error {
		return func(dir string) error {
			for _, n := range names {
				if err := os.Remove(filepath.Join(dir, n)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	byOther := func(dir string) error {
		bundle, err := other.Attest(verify.PredicateProvenance, map[string]any{})
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, verify.ProvenanceFile), bundle, 0o600)
	}
	for name, tc := range map[string]struct {
		change func(dir string) error
		files  []string
		want   string
	}{
		"all":                 {},
		"one":                 {files: []string{"b"}},
		"bare signature":      {change: remove(verify.SumsBundle)},
		"bundle":              {change: remove(verify.SumsSignature)},
		"changed file":        {edit("b", strings.ToUpper), nil, "b: not the file that was signed: it has SHA-256 df7e70e5021544f4"},
		"changed sums":        {edit(verify.SumsFile, func(s string) string { return strings.ReplaceAll(s, "  a", "  c") }), nil, "signature does not match the key"},
		"no signature":        {remove(verify.SumsSignature, verify.SumsBundle), nil, "no signature beside it"},
		"one signature wrong": {edit(verify.SumsSignature, func(string) string { return "AAAA" }), nil, "SHA256SUMS.sig: signature does not match the key"},
		"no base64":           {edit(verify.SumsSignature, func(string) string { return "!" }), nil, "not base64"},
		"no bundle":           {edit(verify.SumsBundle, func(string) string { return "{}" }), nil, "the bundle holds no signature of a file"},
		"renamed":             {func(dir string) error { return os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "z")) }, []string{"z"}, "the signed sums have no file z"},
		"not there":           {nil, []string{"not-downloaded"}, "no such file"},
		"foreign provenance":  {byOther, nil, "provenance.sigstore.json: signature does not match the key"},
		"nothing downloaded":  {remove("a", "b"), nil, "none of its files is in"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := download(t, key)
			if tc.change != nil {
				require.NoError(t, tc.change(dir))
			}
			var files []string
			for _, f := range tc.files {
				files = append(files, filepath.Join(dir, f))
			}
			report, err := verify.Files(filepath.Join(dir, verify.SumsFile), files, key.Public())
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			for _, f := range report.Files {
				assert.Equal(t, f.Name == "a", f.Provenance, f.Name)
			}
			assert.Len(t, report.Files, max(1, 2-len(tc.files)))
		})
	}
}

func TestParseSums(t *testing.T) {
	t.Parallel()
	digest := strings.Repeat("ab", 32)
	for text, want := range map[string]string{
		digest + " a\n":                              "want SHA-256",
		"abcd  a\n":                                  "want SHA-256",
		digest + "  ../a\n":                          "want SHA-256",
		digest + "  a\n" + digest + "  a\n":          "a is listed twice",
		strings.Replace(digest, "a", "x", 1) + "  a": "want SHA-256",
	} {
		_, err := verify.ParseSums([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

func TestParseKeyRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "no PEM",
		"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n":                                                       "want PUBLIC KEY",
		"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n":                                                         "public key: ",
		"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n": "want ECDSA on P-256",
	} {
		_, err := verify.ParseKey([]byte(text))
		require.ErrorContains(t, err, want)
	}
}

// The formats must not change: other tools read them.
func TestFormats(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "DSSEv1 29 http://example.com/HelloWorld 11 hello world",
		string(verify.SignedBytes("http://example.com/HelloWorld", []byte("hello world"))), "the example of DSSE's specification")
	payload, err := json.Marshal(verify.NewSimpleSigning("example.org/x", "sha256:ab"))
	require.NoError(t, err)
	assert.JSONEq(t, `{"critical":{"identity":{"docker-reference":"example.org/x"},"image":{"docker-manifest-digest":"sha256:ab"},
		"type":"cosign container image signature"},"optional":null}`, string(payload))
}

// An old release under a new tag has valid signatures, but is rejected.
func TestImageUnderTheTagOfAnotherVersion(t *testing.T) {
	t.Parallel()
	key := generate(t)
	image, children := push(t, registry.WithReferrersSupport(true))
	for _, signed := range append(children, image) {
		require.NoError(t, key.SignImage(t.Context(), signed))
	}
	require.NoError(t, key.AttestImage(t.Context(), image, verify.PredicateProvenance, map[string]any{
		"buildDefinition": map[string]any{"externalParameters": map[string]string{"version": "1.2.3+x"}},
	}))
	index, err := remote.Index(image, remote.WithContext(t.Context()))
	require.NoError(t, err)
	for tag, good := range map[string]bool{
		"v1.2.3_x": true, "1.2.3_x": true, "stable": true, "v1": true,
		"v1.2.3": false, "v1.2.4_x": false, "2.0.0": false,
	} {
		ref := image.Context().Tag(tag)
		require.NoError(t, remote.Tag(ref, index, remote.WithContext(t.Context())))
		report, err := verify.Image(t.Context(), ref.String(), verify.ImageOptions{Key: key.Public()})
		assert.Equal(t, "1.2.3+x", report.Version)
		if good {
			require.NoError(t, err, tag)
			continue
		}
		require.ErrorIs(t, err, verify.ErrVersion, tag)
		require.EqualError(t, err, ref.String()+": the image of another release: its signed provenance says version 1.2.3+x")
	}
	_, err = verify.Image(t.Context(), image.String(), verify.ImageOptions{Key: key.Public()})
	require.NoError(t, err)
}
