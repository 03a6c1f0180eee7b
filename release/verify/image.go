// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/csccm/csccm/release/internal/oci"
)

// maxAttachment is the maximum size of one artefact that is read from a registry, in bytes; an SBOM is about 200 kB.
const maxAttachment = 32 << 20

// Evidence is a signature or statement by the key that was verified.
type Evidence struct {
	// Kind is "signature", "provenance", "sbom" or another predicate type.
	Kind string `json:"kind"`
	// Form is the format of cosign, "bundle" or "tag".
	Form string `json:"form"`
	// Statement is nil for the form "tag".
	Statement *Statement `json:"-"`
}

// ImageReport is the result of verifying an image or chart.
type ImageReport struct {
	// Ref is the requested reference. Digest (sha256:HEX) is what it referred to; use it to pin the verified image.
	Ref    string `json:"ref"`
	Digest string `json:"digest"`
	// Version is the version of the release in the signed provenance; empty without provenance.
	Version string `json:"version,omitempty"`
	// Evidence is the verified evidence; signatures by other keys are not included.
	Evidence []Evidence `json:"evidence"`
	// Platforms are the results for the platforms of a multi-platform image. Each must have its own signature.
	Platforms []PlatformReport `json:"platforms,omitempty"`
}

// PlatformReport is the result for one platform of an image.
type PlatformReport struct {
	Platform string     `json:"platform"`
	Digest   string     `json:"digest"`
	Evidence []Evidence `json:"evidence"`
}

// ImageOptions are the options of Image.
type ImageOptions struct {
	Key *Key
	// Require lists the required kinds of evidence. Empty means a signature.
	Require []string
	// PlainHTTP is for registries without TLS.
	PlainHTTP bool
}

// MissingError means that an image has no evidence of a required kind by the key.
type MissingError struct {
	Ref, Kind string
	// Foreign is the number of signatures or statements that the key does not verify.
	Foreign int
}

func (e *MissingError) Error() string {
	if e.Foreign > 0 {
		return fmt.Sprintf("%s: no %s by this key (%d by other keys, or changed)", e.Ref, e.Kind, e.Foreign)
	}
	return fmt.Sprintf("%s: no %s", e.Ref, e.Kind)
}

// SignatureTag returns the tag under which cosign before version 3 stores the signatures of an image.
func SignatureTag(image name.Digest) name.Tag {
	return image.Context().Tag(strings.Replace(image.DigestStr(), ":", "-", 1) + ".sig")
}

type imageVerifier struct {
	ImageOptions
	remote []remote.Option
}

// Image verifies an image or an OCI chart in a registry, by tag or digest, optionally with a leading oci://. It uses
// the credentials of `docker login` or `helm registry login`. All evidence refers to the digest in the report. If the
// tag is a version, the provenance must name the same version: an old release under a new tag has valid signatures too.
func Image(ctx context.Context, reference string, o ImageOptions) (*ImageReport, error) {
	if o.Key == nil {
		return nil, errors.New("no key to verify with")
	}
	plain := strings.TrimPrefix(reference, "oci://")
	if strings.Contains(plain, "://") {
		return nil, fmt.Errorf("%s: want HOST/PATH:TAG or oci://HOST/PATH:TAG", reference)
	}
	ref, err := name.ParseReference(plain, oci.Names(o.PlainHTTP)...)
	if err != nil {
		return nil, err
	}
	v := imageVerifier{o, oci.Options(ctx)}
	if len(v.Require) == 0 {
		v.Require = []string{"signature"}
	}
	described, err := remote.Get(ref, v.remote...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", reference, err)
	}
	image := ref.Context().Digest(described.Digest.String())
	report := &ImageReport{Ref: ref.Name(), Digest: described.Digest.String()}
	if report.Evidence, err = v.check(image, v.Require); err != nil {
		return report, err
	}
	if report.Version, err = released(ref, report.Evidence); err != nil {
		return report, err
	}
	if !described.MediaType.IsIndex() {
		return report, nil
	}
	index, err := described.ImageIndex()
	if err != nil {
		return report, fmt.Errorf("%s: %w", reference, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return report, fmt.Errorf("%s: %w", reference, err)
	}
	for _, child := range manifest.Manifests {
		if child.Platform == nil || !child.MediaType.IsImage() {
			continue
		}
		evidence, err := v.check(ref.Context().Digest(child.Digest.String()), []string{"signature"})
		report.Platforms = append(report.Platforms, PlatformReport{child.Platform.String(), child.Digest.String(), evidence})
		if err != nil {
			return report, err
		}
	}
	return report, nil
}

// check returns the verified evidence for an image, and a *MissingError if a required kind is missing.
func (v *imageVerifier) check(image name.Digest, require []string) ([]Evidence, error) {
	evidence, foreign, err := v.bundles(image)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", image, err)
	}
	tagged, others, err := v.tag(image)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", image, err)
	}
	evidence = append(evidence, tagged...)
	for _, kind := range require {
		if !slices.ContainsFunc(evidence, func(e Evidence) bool { return e.Kind == kind }) {
			return evidence, &MissingError{image.String(), kind, foreign + others}
		}
	}
	return evidence, nil
}

// kinds maps predicate types to kinds of evidence.
var kinds = map[string]string{
	PredicateSignature:  "signature",
	PredicateProvenance: "provenance",
	PredicateSBOM:       "sbom",
}

func (v *imageVerifier) bundles(image name.Digest) (found []Evidence, foreign int, err error) {
	referrers, err := remote.Referrers(image, v.remote...)
	if err != nil {
		return nil, 0, err
	}
	list, err := referrers.IndexManifest()
	if err != nil {
		return nil, 0, err
	}
	for _, described := range list.Manifests {
		if !described.MediaType.IsImage() {
			continue
		}
		// Do not trust the registry's list: check the artefact that it refers to.
		artifact, err := remote.Image(image.Context().Digest(described.Digest.String()), v.remote...)
		if err != nil {
			return nil, 0, err
		}
		manifest, err := artifact.Manifest()
		if err != nil || len(manifest.Layers) != 1 || !strings.HasPrefix(string(manifest.Layers[0].MediaType), "application/vnd.dev.sigstore.bundle") {
			continue // an artefact of another tool
		}
		data, err := read(artifact, manifest.Layers[0])
		if err != nil {
			return nil, 0, err
		}
		var bundle Bundle
		if err := json.Unmarshal(data, &bundle); err != nil {
			foreign++
			continue
		}
		statement, err := bundle.Statement(v.Key)
		if err != nil || !statement.About(strings.TrimPrefix(image.DigestStr(), "sha256:")) {
			foreign++
			continue
		}
		kind := kinds[statement.PredicateType]
		if kind == "" {
			kind = statement.PredicateType
		}
		found = append(found, Evidence{kind, "bundle", statement})
	}
	return found, foreign, nil
}

func (v *imageVerifier) tag(image name.Digest) (found []Evidence, foreign int, err error) {
	signatures, err := remote.Image(SignatureTag(image), v.remote...)
	if err != nil {
		if oci.NotFound(err) {
			return nil, 0, nil
		}
		return nil, 0, err
	}
	manifest, err := signatures.Manifest()
	if err != nil {
		return nil, 0, err
	}
	for _, layer := range manifest.Layers {
		if layer.MediaType != SimpleSigningMediaType {
			continue
		}
		payload, err := read(signatures, layer)
		if err != nil {
			return nil, 0, err
		}
		var said SimpleSigning
		signature, err := base64.StdEncoding.DecodeString(layer.Annotations[SignatureAnnotation])
		if err != nil || v.Key.Verify(payload, signature) != nil || json.Unmarshal(payload, &said) != nil ||
			said.Critical.Type != simpleSigningType || said.Critical.Image.DockerManifestDigest != image.DigestStr() {
			foreign++
			continue
		}
		found = append(found, Evidence{Kind: "signature", Form: "tag"})
	}
	return found, foreign, nil
}

func read(artifact v1.Image, described v1.Descriptor) (data []byte, err error) {
	if described.Size > maxAttachment {
		return nil, fmt.Errorf("attachment %s has %d bytes, more than %d", described.Digest, described.Size, maxAttachment)
	}
	layer, err := artifact.LayerByDigest(described.Digest)
	if err != nil {
		return nil, err
	}
	stream, err := layer.Compressed() // the stored bytes, verified against the digest
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	return io.ReadAll(io.LimitReader(stream, maxAttachment+1))
}

// ErrVersion means that a tag refers to the image of another release.
var ErrVersion = errors.New("the image of another release")

// released returns the version in the provenance, and ErrVersion if ref is the tag of another version.
func released(ref name.Reference, evidence []Evidence) (string, error) {
	said := ""
	for _, e := range evidence {
		if e.Kind != "provenance" || e.Statement == nil {
			continue
		}
		var predicate struct {
			BuildDefinition struct {
				ExternalParameters struct {
					Version string `json:"version"`
				} `json:"externalParameters"`
			} `json:"buildDefinition"`
		}
		// Provenance of another build type has no version.
		if json.Unmarshal(e.Statement.Predicate, &predicate) == nil && predicate.BuildDefinition.ExternalParameters.Version != "" {
			said = predicate.BuildDefinition.ExternalParameters.Version
		}
	}
	tag, ok := ref.(name.Tag)
	if !ok || said == "" {
		return said, nil
	}
	// Tags cannot contain a plus sign.
	want, err := semver.StrictNewVersion(strings.TrimPrefix(strings.ReplaceAll(tag.TagStr(), "_", "+"), "v"))
	if err == nil && want.String() != said {
		return said, fmt.Errorf("%s: %w: its signed provenance says version %s", ref, ErrVersion, said)
	}
	return said, nil
}
