// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package verify checks what a release of csccm was signed with: container images and charts in a registry, and
// downloaded files. It needs the public key and no other service; the forms are those of cosign, which checks
// the same signatures.
package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// Media types and names of the forms in which signatures are kept.
const (
	// BundleMediaType is the Sigstore bundle, cosign's form since version 3.
	BundleMediaType = "application/vnd.dev.sigstore.bundle.v0.3+json"
	// SimpleSigningMediaType is the payload of a signature under a tag, cosign's form before.
	SimpleSigningMediaType = "application/vnd.dev.cosign.simplesigning.v1+json"
	// SignatureAnnotation of a layer with such a payload has its signature.
	SignatureAnnotation = "dev.cosignproject.cosign/signature"
	// SBOMMediaType is that of CycloneDX in JSON.
	SBOMMediaType = "application/vnd.cyclonedx+json"

	// StatementType and StatementPayload are those of in-toto.
	StatementType    = "https://in-toto.io/Statement/v1"
	StatementPayload = "application/vnd.in-toto+json"

	// PredicateSignature says nothing but that the subject is signed.
	PredicateSignature = "https://sigstore.dev/cosign/sign/v1"
	// PredicateProvenance says how the subject was built.
	PredicateProvenance = "https://slsa.dev/provenance/v1"
	// PredicateSBOM says what is in the subject.
	PredicateSBOM = "https://cyclonedx.org/bom"

	simpleSigningType = "cosign container image signature"
)

// Subject is what a statement speaks of.
type Subject struct {
	Name string `json:"name,omitempty"`
	// Digest by algorithm, in hex: sha256.
	Digest map[string]string `json:"digest"`
}

// Statement is in-toto's.
type Statement struct {
	Type          string          `json:"_type"`
	Subject       []Subject       `json:"subject"`
	PredicateType string          `json:"predicateType"`
	Predicate     json.RawMessage `json:"predicate"`
}

// Envelope is DSSE's: a payload that is signed together with its type.
type Envelope struct {
	Payload     []byte              `json:"payload"`
	PayloadType string              `json:"payloadType"`
	Signatures  []EnvelopeSignature `json:"signatures"`
}

// EnvelopeSignature is one of an Envelope.
type EnvelopeSignature struct {
	Sig []byte `json:"sig"`
}

// SignedBytes are what the signatures of an envelope are made over (DSSE's pre-authentication encoding).
func SignedBytes(payloadType string, payload []byte) []byte {
	var out bytes.Buffer
	out.WriteString("DSSEv1 " + strconv.Itoa(len(payloadType)) + " " + payloadType + " " + strconv.Itoa(len(payload)) + " ")
	out.Write(payload)
	return out.Bytes()
}

// Bundle is Sigstore's: a signature of a file, or of a statement, in one file.
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

// SimpleSigning is the payload of a signature under a tag.
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

// NewSimpleSigning is the payload for an image: repository without tag, and sha256:HEX.
func NewSimpleSigning(repository, digest string) SimpleSigning {
	var s SimpleSigning
	s.Critical.Identity.DockerReference = repository
	s.Critical.Image.DockerManifestDigest = digest
	s.Critical.Type = simpleSigningType
	return s
}

// Statement returns the bundle's statement if key signed it.
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

// About tells whether the statement speaks of a digest (sha256, in hex).
func (s *Statement) About(digest string) bool {
	for _, subject := range s.Subject {
		if digest != "" && subject.Digest["sha256"] == digest {
			return true
		}
	}
	return false
}
