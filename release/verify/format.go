// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package verify verifies the signatures of a release of csccm: of container images and charts in a registry, and of
// downloaded files. It needs the public key and no online service. The formats are those of cosign, which can verify
// the same signatures.
package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// Media types and names of the signature formats.
const (
	// BundleMediaType is the media type of a Sigstore bundle, cosign's format since version 3.
	BundleMediaType = "application/vnd.dev.sigstore.bundle.v0.3+json"
	// SimpleSigningMediaType is the media type of a SimpleSigning payload under a tag, cosign's format before version
	// 3.
	SimpleSigningMediaType = "application/vnd.dev.cosign.simplesigning.v1+json"
	// SignatureAnnotation is the annotation with the signature on a layer with such a payload.
	SignatureAnnotation = "dev.cosignproject.cosign/signature"
	// SBOMMediaType is the media type of CycloneDX in JSON.
	SBOMMediaType = "application/vnd.cyclonedx+json"

	// StatementType and StatementPayload are the types of in-toto statements.
	StatementType    = "https://in-toto.io/Statement/v1"
	StatementPayload = "application/vnd.in-toto+json"

	// PredicateSignature only states that the subject is signed.
	PredicateSignature = "https://sigstore.dev/cosign/sign/v1"
	// PredicateProvenance describes how the subject was built.
	PredicateProvenance = "https://slsa.dev/provenance/v1"
	// PredicateSBOM lists the components of the subject.
	PredicateSBOM = "https://cyclonedx.org/bom"

	simpleSigningType = "cosign container image signature"
)

// Subject is an artefact that a statement is about.
type Subject struct {
	Name string `json:"name,omitempty"`
	// Digest maps an algorithm (sha256) to the digest in hex.
	Digest map[string]string `json:"digest"`
}

// Statement is an in-toto statement.
type Statement struct {
	Type          string          `json:"_type"`
	Subject       []Subject       `json:"subject"`
	PredicateType string          `json:"predicateType"`
	Predicate     json.RawMessage `json:"predicate"`
}

// Envelope is a DSSE envelope: a payload that is signed together with its type.
type Envelope struct {
	Payload     []byte              `json:"payload"`
	PayloadType string              `json:"payloadType"`
	Signatures  []EnvelopeSignature `json:"signatures"`
}

// EnvelopeSignature is one signature of an Envelope.
type EnvelopeSignature struct {
	Sig []byte `json:"sig"`
}

// SignedBytes returns the bytes that the signatures of an envelope cover (DSSE's pre-authentication encoding).
func SignedBytes(payloadType string, payload []byte) []byte {
	var out bytes.Buffer
	out.WriteString("DSSEv1 " + strconv.Itoa(len(payloadType)) + " " + payloadType + " " + strconv.Itoa(len(payload)) + " ")
	out.Write(payload)
	return out.Bytes()
}

// Bundle is a Sigstore bundle, which contains the signature of a file or a signed statement.
type Bundle struct {
	MediaType            string `json:"mediaType"`
	VerificationMaterial struct {
		PublicKey struct {
			Hint string `json:"hint"`
		} `json:"publicKey"`
	} `json:"verificationMaterial"`
	MessageSignature *MessageSignature `json:"messageSignature,omitempty"`
	DSSEEnvelope     *Envelope         `json:"dsseEnvelope,omitempty"`
}

// MessageSignature is the signature of a file.
type MessageSignature struct {
	MessageDigest struct {
		Algorithm string `json:"algorithm"`
		Digest    []byte `json:"digest"`
	} `json:"messageDigest"`
	Signature []byte `json:"signature"`
}

// SimpleSigning is the payload of a signature that is stored under a tag.
type SimpleSigning struct {
	Critical struct {
		Identity struct {
			DockerReference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			DockerManifestDigest string `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
	Optional map[string]any `json:"optional"`
}

// NewSimpleSigning returns the payload for an image. repository has no tag; digest is sha256:HEX.
func NewSimpleSigning(repository, digest string) SimpleSigning {
	var s SimpleSigning
	s.Critical.Identity.DockerReference = repository
	s.Critical.Image.DockerManifestDigest = digest
	s.Critical.Type = simpleSigningType
	return s
}

// Statement returns the bundle's statement, or an error unless it is signed by key.
func (b *Bundle) Statement(key *Key) (*Statement, error) {
	if b.DSSEEnvelope == nil {
		return nil, errors.New("the bundle holds no statement")
	}
	e := b.DSSEEnvelope
	if e.PayloadType != StatementPayload {
		return nil, fmt.Errorf("payload is of type %q, want %q", e.PayloadType, StatementPayload)
	}
	signed := SignedBytes(e.PayloadType, e.Payload)
	err := errors.New("the bundle holds no signature")
	for _, s := range e.Signatures {
		if err = key.Verify(signed, s.Sig); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	var statement Statement
	if err := json.Unmarshal(e.Payload, &statement); err != nil {
		return nil, fmt.Errorf("statement: %w", err)
	}
	if statement.Type != StatementType {
		return nil, fmt.Errorf("statement is of type %q, want %q", statement.Type, StatementType)
	}
	return &statement, nil
}

// About reports whether a subject of the statement has the digest (SHA-256 in hex).
func (s *Statement) About(digest string) bool {
	for _, subject := range s.Subject {
		if digest != "" && subject.Digest["sha256"] == digest {
			return true
		}
	}
	return false
}
