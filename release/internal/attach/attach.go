// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package attach attaches signatures, statements and SBOMs to an image in a registry.
package attach

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/csccm/csccm/release/internal/access"
	"github.com/csccm/csccm/release/internal/sign"
	"github.com/csccm/csccm/release/verify"
)

// manifest implements remote.Taggable for a raw manifest.
type manifest []byte

func (m manifest) RawManifest() ([]byte, error)        { return m, nil }
func (m manifest) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// Referrer pushes data as an artefact that refers to subject. For registries without the referrers API it uses the
// fallback tag of the OCI specification. Pushing the same data twice gives one artefact.
func Referrer(ctx context.Context, subject name.Digest, mediaType string, data []byte, annotations map[string]string) error {
	o := access.Options(ctx, nil)
	target, err := remote.Head(subject, o...)
	if err != nil {
		return fmt.Errorf("attach to %s: %w", subject, err)
	}
	layers := []v1.Layer{
		static.NewLayer([]byte("{}"), "application/vnd.oci.empty.v1+json"),
		static.NewLayer(data, types.MediaType(mediaType)),
	}
	var parts []v1.Descriptor
	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			return err
		}
		size, err := layer.Size()
		if err != nil {
			return err
		}
		kind, err := layer.MediaType()
		if err != nil {
			return err
		}
		if err := remote.WriteLayer(subject.Context(), layer, o...); err != nil {
			return fmt.Errorf("attach to %s: %w", subject, err)
		}
		parts = append(parts, v1.Descriptor{MediaType: kind, Digest: digest, Size: size})
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
	digest, err := partialDigest(raw)
	if err != nil {
		return err
	}
	if err := remote.Put(subject.Context().Digest(digest.String()), manifest(raw), o...); err != nil {
		return fmt.Errorf("attach to %s: %w", subject, err)
	}
	return nil
}

func partialDigest(raw []byte) (v1.Hash, error) {
	digest, _, err := v1.SHA256(strings.NewReader(string(raw)))
	return digest, err
}

// Subject returns the image as the subject of a statement.
func Subject(image name.Digest) verify.Subject {
	return verify.Subject{
		Name:   image.Context().Name(),
		Digest: map[string]string{"sha256": strings.TrimPrefix(image.DigestStr(), "sha256:")},
	}
}

// Attest signs a statement about an image and attaches it.
func Attest(ctx context.Context, key *sign.Key, image name.Digest, predicateType string, predicate any) error {
	statement, err := sign.Statement(predicateType, predicate, Subject(image))
	if err != nil {
		return err
	}
	bundle, err := key.Attest(statement)
	if err != nil {
		return err
	}
	return Referrer(ctx, image, verify.BundleMediaType, bundle, map[string]string{
		"dev.sigstore.bundle.content":       "dsse-envelope",
		"dev.sigstore.bundle.predicateType": predicateType,
	})
}

// Sign signs an image in both formats that cosign supports: a bundle that refers to the image, and a payload under the
// tag sha256-HEX.sig, which older versions of cosign and policy engines read.
func Sign(ctx context.Context, key *sign.Key, image name.Digest) error {
	if err := Attest(ctx, key, image, verify.PredicateSignature, map[string]any{}); err != nil {
		return err
	}
	payload, err := json.Marshal(verify.NewSimpleSigning(image.Context().Name(), image.DigestStr()))
	if err != nil {
		return err
	}
	signature, err := key.Sign(payload)
	if err != nil {
		return err
	}
	o := access.Options(ctx, nil)
	tag := verify.SignatureTag(image)
	encoded := base64.StdEncoding.EncodeToString(signature)
	// Keep existing signatures by other keys.
	signatures, err := remote.Image(tag, o...)
	if err != nil {
		if !notFound(err) {
			return fmt.Errorf("sign %s: %w", image, err)
		}
		signatures = mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	}
	have, err := signatures.Manifest()
	if err != nil {
		return fmt.Errorf("sign %s: %w", image, err)
	}
	for _, layer := range have.Layers {
		if layer.Annotations[verify.SignatureAnnotation] == encoded {
			return nil
		}
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

func notFound(err error) bool {
	var answer *transport.Error
	return errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound
}
