// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package chartpkg

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/google/go-containerregistry/pkg/name"
	ocireg "github.com/google/go-containerregistry/pkg/registry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/provenance"
	"helm.sh/helm/v3/pkg/registry"

	"github.com/csccm/csccm/release/internal/notes"
	"github.com/csccm/csccm/release/internal/oci"
)

// keyrings writes a new key's secret and public keyrings, the secret one with a password.
func keyrings(t *testing.T, password string) (secret, public string) {
	t.Helper()
	entity, err := openpgp.NewEntity("csccm", "", "release@example.org", nil)
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name string, serialize func(io.Writer) error) string {
		var out bytes.Buffer
		require.NoError(t, serialize(&out))
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, out.Bytes(), 0o600))
		return file
	}
	public = write("public", entity.Serialize)
	if password != "" {
		require.NoError(t, entity.EncryptPrivateKeys([]byte(password), nil))
	}
	secret = write("secret", func(w io.Writer) error { return entity.SerializePrivateWithoutSigning(w, nil) })
	return secret, public
}

// Helm's code verifies the provenance file, as helm verify does.
func TestProvenanceIsWhatHelmVerifies(t *testing.T) {
	t.Parallel()
	secret, public := keyrings(t, "geheim")
	key, err := OpenPGP(secret, "release@example.org", []byte("geheim"))
	require.NoError(t, err)
	assert.Len(t, key.Fingerprint, 40)
	file := write(t, packed(t, "1.2.3"))
	text, err := key.Sign(file)
	require.NoError(t, err)
	signed := file + ".prov"
	require.NoError(t, os.WriteFile(signed, text, 0o600))
	verifier, err := provenance.NewFromKeyring(public, "")
	require.NoError(t, err)
	verified, err := verifier.Verify(file, signed)
	require.NoError(t, err)
	assert.Equal(t, "cloudstack-ccm-1.2.3.tgz", verified.FileName)
	assert.Contains(t, verified.SignedBy.Identities, "csccm <release@example.org>")

	// The artefact in a registry contains it too.
	server := httptest.NewServer(ocireg.New(ocireg.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	tag, err := name.NewTag(strings.TrimPrefix(server.URL, "http://") + "/charts/cloudstack-ccm:1.2.3")
	require.NoError(t, err)
	artifact, err := Artifact(t.Context(), file, time.Unix(1700000000, 0))
	require.NoError(t, err)
	require.NoError(t, oci.Push(t.Context(), artifact, tag))
	client, err := registry.NewClient(registry.ClientOptPlainHTTP(), registry.ClientOptWriter(io.Discard))
	require.NoError(t, err)
	pulled, err := client.Pull(tag.Name(), registry.PullOptWithProv(true))
	require.NoError(t, err)
	assert.Equal(t, string(text), string(pulled.Prov.Data))

	// Another file, another key.
	require.NoError(t, os.WriteFile(file, append(packed(t, "1.2.3").Data, 0), 0o600))
	_, err = verifier.Verify(file, signed)
	require.ErrorContains(t, err, "sha256 sum does not match")
	_, foreign := keyrings(t, "")
	verifier, err = provenance.NewFromKeyring(foreign, "")
	require.NoError(t, err)
	_, err = verifier.Verify(file, signed)
	require.ErrorContains(t, err, "unknown entity")
}

func TestOpenPGPRefuses(t *testing.T) {
	t.Parallel()
	secret, public := keyrings(t, "geheim")
	for want, args := range map[string][3]string{
		"no PGP identity":    {secret, "", "geheim"},
		"PGP keyring":        {secret, "other@example.org", "geheim"},
		"no password is set": {secret, "release", ""},
		"no secret key of":   {public, "release", "geheim"},
		"key of \"release\"": {secret, "release", "wrong-one"},
	} {
		_, err := OpenPGP(args[0], args[1], []byte(args[2]))
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "wrong-one")
	}
}

func TestAnnotations(t *testing.T) {
	t.Parallel()
	p, err := Pack(t.Context(), folder, tree("1.2.3"), Annotations{
		Images:  []Image{{"cloudstack-ccm", "registry.example.org/cloudstack-ccm:v1.2.3@sha256:ab"}},
		Changes: []notes.Change{{Kind: "security", Description: `A "quoted": thing`}},
		SignKey: &SignKey{"AB", "https://example.org/key"},
	})
	require.NoError(t, err)
	loaded, err := loader.LoadArchive(bytes.NewReader(p.Data))
	require.NoError(t, err)
	have := loaded.Metadata.Annotations
	assert.Equal(t, "- image: registry.example.org/cloudstack-ccm:v1.2.3@sha256:ab\n  name: cloudstack-ccm\n", have["artifacthub.io/images"])
	assert.Contains(t, have["artifacthub.io/changes"], `A "quoted": thing`)
	assert.Contains(t, have["artifacthub.io/signKey"], "fingerprint: AB")
	assert.Equal(t, "true", have["artifacthub.io/containsSecurityUpdates"])
	assert.Equal(t, "networking", have["artifacthub.io/category"], "those of the source stay")

	_, err = annotate([]byte("name: x\n"), Annotations{Images: []Image{{"a", "b"}}})
	require.ErrorContains(t, err, "no line annotations:")
}
