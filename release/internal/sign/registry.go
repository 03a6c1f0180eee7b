// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package sign

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/csccm/csccm/release/internal/oci"
	"github.com/csccm/csccm/release/verify"
)

// manifest implements remote.Taggable for a raw manifest.
type manifest []byte

func (m manifest) RawManifest() ([]byte, error)        { return m, nil }
func (m manifest) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// Attach pushes data as an artefact that refers to subject. For registries without the referrers API it uses the
// fallback tag of the OCI specification. Pushing the same data twice gives one artefact.
func Attach(ctx context.Context, subject name.Digest, mediaType string, data []byte, annotations map[string]string) error {
	o := oci.Options(ctx)
	target, err := remote.Head(subject, o...)
	if err != nil {
		return fmt.Errorf("attach to %s: %w", subject, err)
	}
	var parts []v1.Descriptor
	for _, layer := range []v1.Layer{
		static.NewLayer([]byte("{}"), "application/vnd.oci.empty.v1+json"),
		static.NewLayer(data, types.MediaType(mediaType)),
	} {
		part, err := partial.Descriptor(layer)
		if err != nil {
			return err
		}
		if err := remote.WriteLayer(subject.Context(), layer, o...); err != nil {
			return fmt.Errorf("attach to %s: %w", subject, err)
		}
		parts = append(parts, *part)
	}
	raw, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2,
		MediaType:     types.OCIManifestSchema1,
		ArtifactType:  mediaType,
		Config:        parts[0],
		Layers:        parts[1:],
		Subject:       &v1.Descriptor{MediaType: target.MediaType, Digest: target.Digest, Size: target.Size},
		Annotations:   annotations,
	})
	if err != nil {
		return err
	}
	digest, _, err := v1.SHA256(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	if err := remote.Put(subject.Context().Digest(digest.String()), manifest(raw), o...); err != nil {
		return fmt.Errorf("attach to %s: %w", subject, err)
	}
	return nil
}

// Subject returns the image as the subject of a statement.
func Subject(image name.Digest) verify.Subject {
	return verify.Subject{
		Name:   image.Context().Name(),
		Digest: map[string]string{"sha256": strings.TrimPrefix(image.DigestStr(), "sha256:")},
	}
}

// AttestImage signs a statement about an image and attaches it.
func (k *Key) AttestImage(ctx context.Context, image name.Digest, predicateType string, predicate any) error {
	bundle, err := k.Attest(predicateType, predicate, Subject(image))
	if err != nil {
		return err
	}
	return Attach(ctx, image, verify.BundleMediaType, bundle, map[string]string{
		"dev.sigstore.bundle.content":       "dsse-envelope",
		"dev.sigstore.bundle.predicateType": predicateType,
	})
}

// SignImage signs an image in both formats that cosign supports: a bundle that refers to the image, and a payload under the
// tag sha256-HEX.sig, which older versions of cosign and policy engines read.
func (k *Key) SignImage(ctx context.Context, image name.Digest) error {
	if err := k.AttestImage(ctx, image, verify.PredicateSignature, map[string]any{}); err != nil {
		return err
	}
	payload, err := json.Marshal(verify.NewSimpleSigning(image.Context().Name(), image.DigestStr()))
	if err != nil {
		return err
	}
	signature, err := k.Sign(payload)
	if err != nil {
		return err
	}
	o := oci.Options(ctx)
	tag := verify.SignatureTag(image)
	encoded := base64.StdEncoding.EncodeToString(signature)
	// Keep existing signatures by other keys.
	signatures, err := remote.Image(tag, o...)
	if err != nil {
		if !oci.NotFound(err) {
			return fmt.Errorf("sign %s: %w", image, err)
		}
		signatures = mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	}
	have, err := signatures.Manifest()
	if err != nil {
		return fmt.Errorf("sign %s: %w", image, err)
	}
	if slices.ContainsFunc(have.Layers, func(l v1.Descriptor) bool { return l.Annotations[verify.SignatureAnnotation] == encoded }) {
		return nil
	}
	signatures, err = mutate.Append(signatures, mutate.Addendum{
		Layer:       static.NewLayer(payload, verify.SimpleSigningMediaType),
		Annotations: map[string]string{verify.SignatureAnnotation: encoded},
	})
	if err != nil {
		return err
	}
	if err := remote.Write(tag, signatures, o...); err != nil {
		return fmt.Errorf("sign %s: %w", image, err)
	}
	return nil
}
