// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"crypto/md5" //nolint:gosec // the fingerprint format of SSH
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// sshKeyPair is a public key that VMs can be deployed with.
type sshKeyPair struct {
	entity
	name, public, fingerprint string
	owner                     *account
}

type sshKeyView struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Account     string `json:"account,omitempty"`
	ProjectID   string `json:"projectid,omitempty"`
	Project     string `json:"project,omitempty"`
	DomainID    string `json:"domainid"`
	Domain      string `json:"domain"`
	DomainPath  string `json:"domainpath"`
	Fingerprint string `json:"fingerprint"`
	PrivateKey  string `json:"privatekey,omitempty"`
	Annotations bool   `json:"hasannotations"`
}

func viewSSHKey(k *sshKeyPair) sshKeyView {
	o := viewOwner(k.owner)
	return sshKeyView{
		ID: k.uuid, Name: k.name, Account: o.Account, ProjectID: o.ProjectID, Project: o.Project, DomainID: o.DomainID, Domain: o.Domain,
		DomainPath: o.DomainPath, Fingerprint: k.fingerprint,
	}
}

type sshKeyAnswer struct {
	Key sshKeyView `json:"keypair"`
}

func listSSHKeyPairs(c *call) (any, error) {
	in, err := c.ownerScope(false)
	if err != nil {
		return nil, err
	}
	var out []*sshKeyPair
	for _, k := range slices.Backward(c.st.keypairs.rows) {
		switch {
		case k.removed || !in(k.owner) || !matches(c, "id", k):
		case c.has("name") && !strings.EqualFold(c.str("name"), k.name):
		case c.has("fingerprint") && !strings.EqualFold(c.str("fingerprint"), k.fingerprint):
		case c.has("keyword") && !like(k.name, c.str("keyword")) && !like(k.fingerprint, c.str("keyword")):
		default:
			out = append(out, k)
		}
	}
	return page(c, "sshkeypair", out, viewSSHKey)
}

func (st *state) keyNamed(owner *account, name string) (*sshKeyPair, bool) {
	return st.keypairs.find(func(k *sshKeyPair) bool { return k.owner == owner && strings.EqualFold(k.name, name) })
}

func createSSHKeyPair(c *call) (any, error) {
	name := c.str("name")
	if strings.TrimSpace(name) == "" {
		return nil, invalid("Please specify a valid name for the key pair. The key name can't be empty")
	}
	owner, err := c.newOwner()
	if err != nil {
		return nil, err
	}
	if _, taken := c.st.keyNamed(owner, name); taken {
		return nil, invalid("A key pair with name '%s' already exists.", name)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	blob := rsaBlob(&key.PublicKey)
	k := c.st.addKeyPair(c, owner, "ssh-rsa "+base64.StdEncoding.EncodeToString(blob), blob)
	v := viewSSHKey(k)
	v.PrivateKey = string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	return sshKeyAnswer{v}, nil
}

func (st *state) addKeyPair(c *call, owner *account, public string, blob []byte) *sshKeyPair {
	sum := md5.Sum(blob)
	var hex []string
	for _, b := range sum {
		hex = append(hex, fmt.Sprintf("%02x", b))
	}
	return st.keypairs.add(&sshKeyPair{entity: entity{created: c.now}, name: c.str("name"), public: public, fingerprint: strings.Join(hex, ":"), owner: owner})
}

// rsaBlob encodes the public key in SSH's wire format.
func rsaBlob(k *rsa.PublicKey) []byte {
	var out []byte
	field := func(b []byte) {
		out = binary.BigEndian.AppendUint32(out, uint32(len(b))) //nolint:gosec // fields of a key are short
		out = append(out, b...)
	}
	number := func(n *big.Int) {
		b := n.Bytes()
		if len(b) > 0 && b[0]&0x80 != 0 {
			b = append([]byte{0}, b...)
		}
		field(b)
	}
	field([]byte("ssh-rsa"))
	number(big.NewInt(int64(k.E)))
	number(k.N)
	return out
}

// publicKeyTypes are the key types that CloudStack accepts.
var publicKeyTypes = setOf("ssh-rsa", "ssh-dss", "ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")

// readPublicKey parses a public key, which may itself be encoded in base64, and drops its comment.
func readPublicKey(s string) (text string, blob []byte, ok bool) {
	if !strings.Contains(s, " ") {
		raw, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return "", nil, false
		}
		s = string(raw)
	}
	f := strings.Fields(s)
	if len(f) < 2 || !publicKeyTypes[f[0]] {
		return "", nil, false
	}
	blob, err := base64.StdEncoding.DecodeString(f[1])
	return f[0] + " " + f[1], blob, err == nil && len(blob) > 0
}

func registerSSHKeyPair(c *call) (any, error) {
	owner, err := c.newOwner()
	if err != nil {
		return nil, err
	}
	if _, taken := c.st.keyNamed(owner, c.str("name")); taken {
		return nil, invalid("A key pair with name '%s' already exists for this account.", c.str("name"))
	}
	text, blob, ok := readPublicKey(c.str("publickey"))
	if !ok {
		return nil, invalid("Public key is invalid")
	}
	if _, taken := c.st.keypairs.find(func(k *sshKeyPair) bool { return k.owner == owner && k.public == text }); taken {
		return nil, invalid("A key pair with key '%s' already exists for this account.", text)
	}
	return sshKeyAnswer{viewSSHKey(c.st.addKeyPair(c, owner, text, blob))}, nil
}

func deleteSSHKeyPair(c *call) (any, error) {
	owner, err := c.newOwner()
	if err != nil {
		return nil, err
	}
	k, ok := c.st.keyNamed(owner, c.str("name"))
	if !ok {
		return nil, invalid("A key pair with name '%s' does not exist for account %s in specified domain id", c.str("name"), owner.name)
	}
	c.st.keypairs.drop(k)
	return success{true}, nil
}

// deployKeys reads keypair and keypairs.
func (c *call) deployKeys(d *deployment) error {
	names := c.list("keypairs")
	if n := c.str("keypair"); n != "" {
		names = append(names, n)
	}
	for _, n := range names {
		if _, ok := c.st.keyNamed(d.owner, n); !ok {
			return invalid("Not all specified keyparis exist")
		}
	}
	d.keypairs = names
	return nil
}

// getVMPassword always fails, because no template of the simulator supports passwords.
func getVMPassword(c *call) (any, error) {
	if _, err := c.targetVM(); err != nil {
		return nil, err
	}
	return nil, invalid("No password for VM with specified id found. " +
		"If VM is created from password enabled template and SSH keypair is assigned to VM then only password can be retrieved.")
}
