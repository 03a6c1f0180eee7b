// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package sign

import (
	"crypto/sha256"
	"encoding/json"

	"github.com/csccm/csccm/release/verify"
)

// Statement returns an in-toto statement about subjects, with a predicate that is encoded as JSON.
func Statement(predicateType string, predicate any, subjects ...verify.Subject) (verify.Statement, error) {
	raw, err := json.Marshal(predicate)
	if err != nil {
		return verify.Statement{}, err
	}
	return verify.Statement{
		Type: verify.StatementType, Subject: subjects, PredicateType: predicateType, Predicate: raw,
	}, nil
}

// Attest signs a statement and returns a Sigstore bundle.
func (k *Key) Attest(statement verify.Statement) ([]byte, error) {
	payload, err := json.Marshal(statement)
	if err != nil {
		return nil, err
	}
	signature, err := k.Sign(verify.SignedBytes(verify.StatementPayload, payload))
	if err != nil {
		return nil, err
	}
	bundle := k.bundle()
	bundle.DSSEEnvelope = &verify.Envelope{
		Payload: payload, PayloadType: verify.StatementPayload, Signatures: []verify.EnvelopeSignature{{Sig: signature}},
	}
	return json.Marshal(bundle)
}

// Blob signs a file. It returns the plain signature (ASN.1) and a Sigstore bundle that contains it.
func (k *Key) Blob(data []byte) (signature, bundle []byte, err error) {
	signature, err = k.Sign(data)
	if err != nil {
		return nil, nil, err
	}
	b := k.bundle()
	b.MessageSignature = &verify.MessageSignature{Signature: signature}
	sum := sha256.Sum256(data)
	b.MessageSignature.MessageDigest.Algorithm = "SHA2_256"
	b.MessageSignature.MessageDigest.Digest = sum[:]
	bundle, err = json.Marshal(b)
	return signature, bundle, err
}

func (k *Key) bundle() verify.Bundle {
	b := verify.Bundle{MediaType: verify.BundleMediaType}
	b.VerificationMaterial.PublicKey.Hint = k.public.Hint()
	return b
}
