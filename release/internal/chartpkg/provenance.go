// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package chartpkg

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/csccm/csccm/installer/kube/helm"
)

// PGP is a key that signs charts, as for helm package --sign.
type PGP struct {
	signer *helm.Signatory
	// Fingerprint is in upper-case hex.
	Fingerprint string
}

// OpenPGP reads the secret key of an identity (a part of its user ID) from a keyring in binary format. password
// is used only if the key is encrypted.
func OpenPGP(keyring, identity string, password []byte) (*PGP, error) {
	if identity == "" {
		return nil, errors.New("no PGP identity: name a part of the key's user ID")
	}
	signer, err := helm.OpenKeyring(keyring, identity)
	if err != nil {
		return nil, fmt.Errorf("PGP keyring: %w", err)
	}
	if signer.Entity == nil || signer.Entity.PrivateKey == nil {
		return nil, fmt.Errorf("PGP keyring %s: no secret key of %q", keyring, identity)
	}
	err = signer.DecryptKey(func(string) ([]byte, error) {
		if len(password) == 0 {
			return nil, errors.New("it is encrypted, and no password is set")
		}
		return password, nil
	})
	if err != nil {
		return nil, fmt.Errorf("PGP keyring %s: key of %q: %w", keyring, identity, err)
	}
	return &PGP{signer, strings.ToUpper(hex.EncodeToString(signer.Entity.PrimaryKey.Fingerprint))}, nil
}

// Sign returns the provenance file of a packaged chart, for helm verify.
func (p *PGP) Sign(file string) ([]byte, error) {
	text, err := helm.ClearSign(p.signer, file)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", file, err)
	}
	return []byte(text), nil
}
