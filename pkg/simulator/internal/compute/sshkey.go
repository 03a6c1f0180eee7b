// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package compute

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

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

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

func viewSSHKey(k *store.SSHKeyPair) sshKeyView {
	o := wire.ViewOwner(k.Owner)
	return sshKeyView{
		ID: k.UUID, Name: k.Name, Account: o.Account, ProjectID: o.ProjectID, Project: o.Project, DomainID: o.DomainID, Domain: o.Domain,
		DomainPath: o.DomainPath, Fingerprint: k.Fingerprint,
	}
}

type sshKeyAnswer struct {
	Key sshKeyView `json:"keypair"`
}

func listSSHKeyPairs(c *wire.Call) (any, error) {
	in, err := c.OwnerScope(false)
	if err != nil {
		return nil, err
	}
	var out []*store.SSHKeyPair
	for _, k := range slices.Backward(c.St.Keypairs.Rows) {
		switch {
		case k.Removed || !in(k.Owner) || !wire.Matches(c, "id", k):
		case c.Has("name") && !strings.EqualFold(c.Str("name"), k.Name):
		case c.Has("fingerprint") && !strings.EqualFold(c.Str("fingerprint"), k.Fingerprint):
		case c.Has("keyword") && !store.Like(k.Name, c.Str("keyword")) && !store.Like(k.Fingerprint, c.Str("keyword")):
		default:
			out = append(out, k)
		}
	}
	return wire.Page(c, "sshkeypair", out, viewSSHKey)
}

func createSSHKeyPair(c *wire.Call) (any, error) {
	name := c.Str("name")
	if strings.TrimSpace(name) == "" {
		return nil, wire.Invalid("Please specify a valid name for the key pair. The key name can't be empty")
	}
	owner, err := c.NewOwner()
	if err != nil {
		return nil, err
	}
	if _, taken := c.St.KeyNamed(owner, name); taken {
		return nil, wire.Invalid("A key pair with name '%s' already exists.", name)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	blob := rsaBlob(&key.PublicKey)
	k := addKeyPair(c.St, c, owner, "ssh-rsa "+base64.StdEncoding.EncodeToString(blob), blob)
	v := viewSSHKey(k)
	v.PrivateKey = string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	return sshKeyAnswer{v}, nil
}

func addKeyPair(st *store.State, c *wire.Call, owner *store.Account, public string, blob []byte) *store.SSHKeyPair {
	sum := md5.Sum(blob)
	var hex []string
	for _, b := range sum {
		hex = append(hex, fmt.Sprintf("%02x", b))
	}
	return st.Keypairs.Add(&store.SSHKeyPair{Entity: store.Entity{Created: c.Now}, Name: c.Str("name"), Public: public, Fingerprint: strings.Join(hex, ":"), Owner: owner})
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
var publicKeyTypes = store.SetOf("ssh-rsa", "ssh-dss", "ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")

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

func registerSSHKeyPair(c *wire.Call) (any, error) {
	owner, err := c.NewOwner()
	if err != nil {
		return nil, err
	}
	if _, taken := c.St.KeyNamed(owner, c.Str("name")); taken {
		return nil, wire.Invalid("A key pair with name '%s' already exists for this account.", c.Str("name"))
	}
	text, blob, ok := readPublicKey(c.Str("publickey"))
	if !ok {
		return nil, wire.Invalid("Public key is invalid")
	}
	if _, taken := c.St.Keypairs.Find(func(k *store.SSHKeyPair) bool { return k.Owner == owner && k.Public == text }); taken {
		return nil, wire.Invalid("A key pair with key '%s' already exists for this account.", text)
	}
	return sshKeyAnswer{viewSSHKey(addKeyPair(c.St, c, owner, text, blob))}, nil
}

func deleteSSHKeyPair(c *wire.Call) (any, error) {
	owner, err := c.NewOwner()
	if err != nil {
		return nil, err
	}
	k, ok := c.St.KeyNamed(owner, c.Str("name"))
	if !ok {
		return nil, wire.Invalid("A key pair with name '%s' does not exist for account %s in specified domain id", c.Str("name"), owner.Name)
	}
	c.St.Keypairs.Drop(k)
	return wire.Success{Success: true}, nil
}

// deployKeys reads keypair and keypairs.
func deployKeys(c *wire.Call, d *deployment) error {
	names := c.List("keypairs")
	if n := c.Str("keypair"); n != "" {
		names = append(names, n)
	}
	for _, n := range names {
		if _, ok := c.St.KeyNamed(d.owner, n); !ok {
			return wire.Invalid("Not all specified keyparis exist")
		}
	}
	d.keypairs = names
	return nil
}

// getVMPassword always fails, because no template of the simulator supports passwords.
func getVMPassword(c *wire.Call) (any, error) {
	if _, err := targetVM(c); err != nil {
		return nil, err
	}
	return nil, wire.Invalid("No password for VM with specified id found. " +
		"If VM is created from password enabled template and SSH keypair is assigned to VM then only password can be retrieved.")
}
