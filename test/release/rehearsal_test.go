// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"debug/elf"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/test/internal/must"
)

// keys creates the keys of a rehearsal. Its signatures need none of Sigstore's services.
func (s *source) keys() {
	s.t.Helper()
	s.key, s.public, s.signing = filepath.Join(s.work,
		"cosign.key"), filepath.Join(s.work, "cosign.pub"), filepath.Join(s.work, "signing.json")
	s.step("cosign", "generate-key-pair", "--output-key-prefix", strings.TrimSuffix(s.key, ".key"))
	s.step("cosign", "signing-config", "create", "--out", s.signing)
	s.env = append(s.env, "COSIGN_KEY="+s.key, "SIGNING_CONFIG="+s.signing, "NO_RELEASE_PAGE=true", "LINUX_ONLY=true")
}

// verify verifies the release that was made last with cosign and helm, and checks that they refuse changed files.
func (s *source) verify(host, digest string) {
	s.t.Helper()
	dist := func(file string) string { return filepath.Join(s.dir, "dist", file) }
	sums, chart := dist("SHA256SUMS"), dist(name+"-"+final+".tgz")
	byKey := []string{"--insecure-ignore-tlog", "--key", s.public}
	blob := func(bundle, file string) []string {
		return append([]string{"verify-blob", "--bundle", bundle, file}, byKey...)
	}
	s.say("Users verify files and images.")
	s.step("cosign", blob(sums+".sigstore.json", sums)...)
	s.step("cosign", blob(chart+".sigstore.json", chart)...)
	s.run("sh", "-c", "cd dist && sha256sum --check --quiet SHA256SUMS")
	image := host + "/csccm/" + name + "@" + digest
	s.step("cosign", append([]string{"verify", image}, byKey...)...)
	s.step("cosign", append([]string{"verify", host + "/csccm/charts/" + name + ":" + final}, byKey...)...)
	s.step("helm", "verify", chart, "--keyring", s.keyring)
	s.step("crane", "manifest", image)
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		program, err := elf.Open(pull(s.t, image, arch))
		require.NoError(s.t, err)
		require.Equal(s.t, machine, program.Machine)
	}

	s.say("One changed byte is refused.")
	changed := s.change(sums)
	s.refused("failed to verify signature", "cosign", blob(sums+".sigstore.json", changed)...)
	require.NoError(s.t, os.Rename(s.change(chart), chart))
	s.refused("sha256 sum does not match", "helm", "verify", chart, "--keyring", s.keyring)
	s.say("An image that nobody signed is refused.")
	s.refused("no signatures found", "cosign", append([]string{"verify", host + "/csccm/base:latest"}, byKey...)...)

	s.say("The key of somebody else is refused.")
	other := filepath.Join(s.work, "other")
	s.step("cosign", "generate-key-pair", "--output-key-prefix", other)
	s.refused("failed to verify signature", "cosign", "verify-blob", "--bundle", sums+".sigstore.json", sums,
		"--insecure-ignore-tlog", "--key", other+".pub")
	s.refused("", "cosign", "verify", image, "--insecure-ignore-tlog", "--key", other+".pub")

	s.keyless(sums)
}

// keyless signs a file with an identity, and verifies it with that identity and with another one.
func (s *source) keyless(file string) {
	s.t.Helper()
	defer func(env []string) { s.env = env }(s.env)
	s.env = append(slices.Clone(s.env), "COSIGN_KEY=") // cosign uses the variable like --key
	s.say("Without a key, by the identity of a job, which another authority on loopback certifies here. Another " +
		"identity is refused.")
	const workflow, issuer = "https://github.com/csccm/csccm/.github/workflows/release.yml@refs/tags/v" +
		final, "https://token.actions.githubusercontent.com"
	address, chain := authority(s.t, s.work, workflow, issuer)
	signing, trusted, bundle := filepath.Join(s.work,
		"keyless.json"), filepath.Join(s.work, "trusted.json"), filepath.Join(s.work, "keyless.sigstore.json")
	s.step("cosign", "signing-config", "create", "--fulcio",
		"url="+address+",api-version=1,start-time=2026-01-01T00:00:00Z,operator=rehearsal", "--out", signing)
	s.step("cosign", "trusted-root", "create", "--fulcio", "url="+address+",certificate-chain="+chain, "--out", trusted)
	s.step("cosign", "sign-blob", "--yes", "--identity-token", token(issuer), "--signing-config", signing, "--bundle",
		bundle, file)
	by := func(identity string) []string {
		return []string{"verify-blob", "--trusted-root", trusted, "--insecure-ignore-sct", "--insecure-ignore-tlog",
			"--certificate-identity", identity,
			"--certificate-oidc-issuer", issuer, "--bundle", bundle, file}
	}

	s.step("cosign", by(workflow)...)
	s.refused("no matching CertificateIdentity", "cosign", by("https://github.com/somebody/else")...)
}

// change returns a copy of a file with one byte changed.
func (s *source) change(file string) string {
	s.t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(s.t, err)
	text[len(text)/2] ^= 1
	changed := filepath.Join(s.work, "changed")
	require.NoError(s.t, os.WriteFile(changed, text, 0o600))
	return changed
}

// reproduce makes the release again, from a clone at another path, and compares all files and the images. Only SBOMs
// may differ: syft writes the time and a random number into them.
func (s *source) reproduce() {
	s.t.Helper()
	s.say("The release, made again in a clone: only SBOMs differ.")
	again := &shell{t: s.t, dir: filepath.Join(s.work, "somewhere", "else"), programs: s.programs}
	host := serve(s.t, s.t.TempDir())
	registry := strings.TrimPrefix(s.env[slices.IndexFunc(s.env,
		func(v string) bool { return strings.HasPrefix(v, "REGISTRY=") })], "REGISTRY=")
	// ko writes the name of the base image into the manifest: both builds must use the same registry for it.
	base := registry + "/base@" + strings.TrimSpace(s.step("crane", "digest", registry+"/base:latest"))
	again.env = append(slices.Clone(s.env), "REGISTRY="+host+"/csccm", "BASE="+base, "TZ=Asia/Tokyo")
	s.run("git", "clone", "-q", s.dir, again.dir)
	again.step("release/steps", "programs")
	sums := []string{"-v", "cdx.json$", "dist/SHA256SUMS"}
	assert.Equal(s.t, s.step("grep", sums...), again.run("grep", sums...))
	for _, program := range []string{name, "csccm", "cloudstack-sim"} {
		made := s.step("crane", "digest", registry+"/"+program+":v"+final)
		assert.Equal(s.t, made, s.step("crane", "digest", host+"/csccm/"+program+":v"+final), program)
	}
}

// token returns an identity token of a job. Only the authority of the rehearsal accepts it.
func token(issuer string) string {
	part := func(v any) string {
		text, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	return part(map[string]string{"alg": "RS256"}) + "." + part(map[string]any{
		"iss": issuer,
		"sub": "repo:csccm/csccm",
		"aud": "sigstore",
		"exp": time.Now().Add(time.Hour).Unix(),
		"iat": time.Now().Unix(),
	}) + ".c2lnbmF0dXJl"
}

// authority serves a certificate authority with the API of Fulcio, which certifies one identity for every request. It
// returns its address and the file with its certificate.
func authority(t *testing.T, dir, identity, issuer string) (address, chain string) {
	t.Helper()
	chain = filepath.Join(dir, "chain.pem")
	require.NoError(t, must.Catch(func() {
		key, now := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), time.Now().Add(-time.Hour)
		ca := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "rehearsal", Organization: []string{"csccm"}},
			NotBefore: now, NotAfter: now.Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
			KeyUsage: x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		}

		root := must.Get(x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key))
		ca = must.Get(x509.ParseCertificate(root))
		leaf := &x509.Certificate{
			SerialNumber: big.NewInt(2), NotBefore: now, NotAfter: now.Add(24 * time.Hour),
			URIs:     []*url.URL{must.Get(url.Parse(identity))},
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
			ExtraExtensions: []pkix.Extension{{
				Id:    asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8},
				Value: must.Get(asn1.MarshalWithParams(issuer, "utf8")),
			}},
		}

		encoded := func(der []byte) string {
			return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
		}
		must.OK(os.WriteFile(chain, []byte(encoded(root)), 0o600))
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			err := must.Catch(func() {
				var request struct {
					PublicKeyRequest struct{ PublicKey struct{ Content string } }
				}
				must.OK(json.NewDecoder(r.Body).Decode(&request))
				block, _ := pem.Decode([]byte(request.PublicKeyRequest.PublicKey.Content))
				must.Be(block != nil, "no public key")
				der := must.Get(x509.CreateCertificate(rand.Reader, leaf, ca,
					must.Get(x509.ParsePKIXPublicKey(block.Bytes)), key))
				w.Header().Set("Content-Type", "application/json")
				must.OK(json.NewEncoder(w).Encode(map[string]any{
					"signedCertificateEmbeddedSct": map[string]any{"chain": map[string]any{
						"certificates": []string{encoded(der), encoded(root)},
					}},
				}))
			})
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
			}
		}))

		t.Cleanup(server.Close)
		address = server.URL
	}))

	return address, chain
}
