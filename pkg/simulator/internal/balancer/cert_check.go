// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"bytes"
	"crypto/dsa" //nolint:staticcheck // CloudStack distinguishes DSA keys
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"
)

// CertUpload holds the parameters of uploadSslCert.
type CertUpload struct {
	Certificate, Key, Password, Chain string
	HasPassword, HasChain, Revocation bool
}

// errNullPointer stands for CloudStack's null pointer exceptions, whose text is empty.
var errNullPointer = errors.New("")

// parseFailed returns an error with the text that CloudStack puts around errors of its parsers.
func parseFailed(format string, v ...any) error {
	return fmt.Errorf("Parsing certificate/key failed: %s", fmt.Sprintf(format, v...)) //nolint:staticcheck // the text of CloudStack
}

// CheckCertificate runs CloudStack's checks in their order. It returns the SHA-256 fingerprint and, for RSA, the key
// pair that terminates TLS.
func CheckCertificate(u CertUpload, now time.Time) (fingerprint string, pair *tls.Certificate, err error) {
	cert, err := parseCertificate(u.Certificate)
	if err != nil {
		return "", nil, err
	}
	key, err := parseKey(u.Key, u.Password, u.HasPassword)
	if err != nil {
		return "", nil, err
	}
	var issuer *x509.Certificate
	if u.HasChain {
		if issuer, err = parseChain(u.Chain); err != nil {
			return "", nil, err
		}
	}
	switch {
	case now.After(cert.NotAfter):
		return "", nil, parseFailed("NotAfter: %s", javaDate(cert.NotAfter))
	case now.Before(cert.NotBefore):
		return "", nil, parseFailed("NotBefore: %s", javaDate(cert.NotBefore))
	}
	if err := checkKeyPair(cert, key); err != nil {
		return "", nil, err
	}
	if u.HasChain && (u.Revocation || !issuedBy(cert, cert) && !issuedBy(cert, issuer)) {
		// Revocation checks need a revocation list, which nothing in the simulator serves.
		return "", nil, errors.New("Invalid certificate chain") //nolint:staticcheck // the text of CloudStack
	}
	sum := sha256.Sum256(cert.Raw)
	fingerprint = strings.ReplaceAll(fmt.Sprintf("% X", sum[:]), " ", ":")
	if _, ok := key.(*rsa.PrivateKey); !ok {
		return fingerprint, nil, nil
	}
	pair = &tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
	if issuer != nil {
		pair.Certificate = append(pair.Certificate, issuer.Raw)
	}
	return fingerprint, pair, nil
}

// javaDate formats a time like java.util.Date.
func javaDate(t time.Time) string { return t.UTC().Format("Mon Jan 02 15:04:05 MST 2006") }

// readPEM reads the first PEM object. It returns nil without an error if there is none.
func readPEM(text string) (*pem.Block, error) {
	_, after, ok := strings.Cut(text, "-----BEGIN ")
	if !ok {
		return nil, nil
	}
	if block, _ := pem.Decode([]byte(text)); block != nil {
		return block, nil
	}
	typ, _, _ := strings.Cut(after, "-")
	if end := "-----END " + typ; !strings.Contains(after, end) {
		return nil, fmt.Errorf("%s not found", end)
	}
	return nil, errors.New("unable to decode base64 string: invalid characters encountered in base64 data")
}

func parseCertificate(text string) (*x509.Certificate, error) {
	block, err := readPEM(text)
	if err != nil {
		if strings.HasPrefix(err.Error(), "unable to decode") {
			return nil, err
		}
		return nil, badCertificate(err.Error())
	}
	if block == nil {
		return nil, errNullPointer
	}
	cert, err := decodeCertificate(block.Bytes)
	if err != nil {
		return nil, badCertificate(err.Error())
	}
	return cert, nil
}

func badCertificate(cause string) error {
	return fmt.Errorf("Invalid Certificate format. Expected X509 certificate. Failed due to %s", cause) //nolint:staticcheck // the text of CloudStack
}

func decodeCertificate(der []byte) (*x509.Certificate, error) {
	if len(der) == 0 || der[0] != 0x30 {
		return nil, errors.New("Could not parse certificate: java.io.IOException: Empty input") //nolint:staticcheck // the text of CloudStack
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("Unable to initialize, java.io.IOException: %w", err) //nolint:staticcheck // the text of CloudStack
	}
	return cert, nil
}

// parseChain reads the chain like CloudStack, which uses only the first certificate.
func parseChain(text string) (*x509.Certificate, error) {
	block, err := readPEM(text)
	if err != nil {
		return nil, parseFailed("%s", err)
	}
	if block == nil {
		return nil, errNullPointer
	}
	if len(block.Bytes) == 0 || block.Bytes[0] != 0x30 {
		return nil, errors.New("Unable to decode certificate chain") //nolint:staticcheck // the text of CloudStack
	}
	cert, err := decodeCertificate(block.Bytes)
	if err != nil {
		return nil, parseFailed("%s", err)
	}
	return cert, nil
}

// issuedBy reports whether ca signed the certificate.
func issuedBy(cert, ca *x509.Certificate) bool {
	if !bytes.Equal(cert.RawIssuer, ca.RawSubject) {
		return false
	}
	return ca.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate, cert.Signature) == nil
}

// unsupportedKeys maps PEM types that are not private keys to the classes that CloudStack's parser returns for them.
var unsupportedKeys = map[string]string{
	"CERTIFICATE": "cert.X509CertificateHolder", "X509 CERTIFICATE": "cert.X509CertificateHolder", "PUBLIC KEY": "asn1.x509.SubjectPublicKeyInfo",
	"RSA PUBLIC KEY": "asn1.x509.SubjectPublicKeyInfo", "CERTIFICATE REQUEST": "pkcs.PKCS10CertificationRequest",
	"NEW CERTIFICATE REQUEST": "pkcs.PKCS10CertificationRequest", "X509 CRL": "cert.X509CRLHolder", "EC PARAMETERS": "asn1.ASN1ObjectIdentifier",
}

// parseKey reads a private key: plain or encrypted, in the traditional PEM format or PKCS#8.
func parseKey(text, password string, hasPassword bool) (any, error) {
	block, err := readPEM(text)
	if err != nil {
		if strings.HasPrefix(err.Error(), "unable to decode") {
			return nil, err
		}
		return nil, parseFailed("%s", err)
	}
	if block == nil {
		return nil, errors.New("Cannot parse private key") //nolint:staticcheck // the text of CloudStack
	}
	if class, ok := unsupportedKeys[block.Type]; ok {
		return nil, fmt.Errorf("Unsupported PEM object: class org.bouncycastle.%s", class) //nolint:staticcheck // the text of CloudStack
	}
	der := block.Bytes
	switch {
	case block.Type == "ENCRYPTED PRIVATE KEY":
		if !hasPassword {
			return nil, errors.New("Key is encrypted by PKCS#8 but password is null") //nolint:staticcheck // the text of CloudStack
		}
		if der, err = decryptPKCS8(der, password); err != nil {
			return nil, parseFailed("unable to read encrypted data: %s", err)
		}
		block.Type = "PRIVATE KEY"
	case x509.IsEncryptedPEMBlock(block): //nolint:staticcheck // clients still send such keys
		if !hasPassword {
			return nil, errors.New("Key is encrypted but password is null") //nolint:staticcheck // the text of CloudStack
		}
		if der, err = x509.DecryptPEMBlock(block, []byte(password)); err != nil { //nolint:staticcheck // clients still send such keys
			return nil, parseFailed("exception using cipher - please check password and data.")
		}
	}
	return decodeKey(block.Type, der)
}

func decodeKey(typ string, der []byte) (any, error) {
	var key any
	var err error
	switch typ {
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(der)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(der)
	case "DSA PRIVATE KEY":
		return &dsa.PrivateKey{}, nil // its numbers are never compared
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(der)
	default:
		return nil, parseFailed("unrecognised object: %s", typ)
	}
	if err != nil {
		return nil, parseFailed("problem creating %s: %s", typ, err)
	}
	return key, nil
}

// checkKeyPair compares certificate and key. CloudStack compares the numbers of RSA pairs only and accepts every DSA
// pair. For any other pair, the two halves report different algorithm names in Java (EC and ECDSA), so CloudStack
// refuses all of them.
func checkKeyPair(cert *x509.Certificate, key any) error {
	switch k := key.(type) {
	case *rsa.PrivateKey:
		pub, ok := cert.PublicKey.(*rsa.PublicKey)
		if !ok {
			break
		}
		if !k.PublicKey.Equal(pub) {
			return errors.New("Bad public-private key") //nolint:staticcheck // the text of CloudStack
		}
		return nil
	case *dsa.PrivateKey:
		if cert.PublicKeyAlgorithm == x509.DSA {
			return nil
		}
	}
	return errors.New("Public and private key have different algorithms") //nolint:staticcheck // the text of CloudStack
}
