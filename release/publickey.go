// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/pkg/version"
	"github.com/csccm/csccm/release/verify"
)

// publicKeyFile is the public key of all releases, at the root of the repository.
const publicKeyFile = "cosign.pub"

// keyPages are the pages that name the key's fingerprint, between keyBegin and keyEnd.
var keyPages = []string{"README.md", "SECURITY.md", "docs/verify.md"}

const (
	keyBegin = "<!-- key: written by go run ./release publish-key -->\n"
	keyEnd   = "<!-- end of key -->\n"
)

func newPublishKeyCommand(s *settings) *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:   "publish-key",
		Short: "Write the public key and its fingerprint into the tree: before the first release, and when the key changes",
		Long: "Write cosign.pub, and its fingerprint into " + strings.Join(keyPages, ", ") + ". Without them no release is made,\n" +
			"and a release that another key signed is not published. Commit the result.",
		Example: "  release publish-key --public-key-file ~/keys/cosign.pub",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := os.ReadFile(filepath.Clean(from))
			if err != nil {
				return fmt.Errorf("--public-key-file: %w", err)
			}
			key, err := verify.ParseKey(text)
			if err != nil {
				return fmt.Errorf("--public-key-file %s: %w", from, err)
			}
			if err := publishKey(s.root, key); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), fingerprint(key))
			return err
		},
	}
	cmd.Flags().StringVar(&from, "public-key-file", "", "the public key, as release key or cosign generate-key-pair wrote it")
	_ = cmd.MarkFlagRequired("public-key-file")
	return cmd
}

// fingerprint returns the SHA-256 of the key's DER encoding, which openssl and sha256sum compute from cosign.pub.
func fingerprint(key *verify.Key) string {
	block, _ := pem.Decode(key.PEM())
	return fmt.Sprintf("%x", sha256.Sum256(block.Bytes))
}

// keyText is what the pages say of the key.
func keyText(key *verify.Key) string {
	return fmt.Sprintf("The public key is [cosign.pub](%s%s). Its fingerprint, by `openssl pkey -pubin -in cosign.pub -outform DER | sha256sum`:\n\n"+
		"    %s\n", version.Pages, publicKeyFile, fingerprint(key))
}

// publishKey writes the key and what the pages say of it.
func publishKey(root string, key *verify.Key) error {
	pages := map[string][]byte{publicKeyFile: key.PEM()}
	for _, page := range keyPages {
		before, _, after, err := readKeyPage(root, page)
		if err != nil {
			return err
		}
		pages[page] = []byte(before + keyText(key) + after)
	}
	for page, text := range pages {
		if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(page)), text, 0o644); err != nil { //nolint:gosec // all of it is public
			return err
		}
	}
	return nil
}

// readKeyPage returns what a page says of the key, and the text before and after it.
func readKeyPage(root, page string) (before, says, after string, err error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
	if err != nil {
		return "", "", "", err
	}
	before, rest, begins := strings.Cut(string(text), keyBegin)
	says, after, ends := strings.Cut(rest, keyEnd)
	if !begins || !ends {
		return "", "", "", fmt.Errorf("%s has no place for the key: want the lines %q and %q", page, strings.TrimSpace(keyBegin), strings.TrimSpace(keyEnd))
	}
	return before + keyBegin, says, keyEnd + after, nil
}

// errNoKey means that the tree does not publish a key yet.
var errNoKey = errors.New("there is no " + publicKeyFile + ": go run ./release publish-key (docs/release.md)")

// publishedKey returns the key that the tree publishes, if all pages name it.
func publishedKey(root string) (*verify.Key, error) {
	text, err := os.ReadFile(filepath.Join(root, publicKeyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoKey
	}
	if err != nil {
		return nil, err
	}
	key, err := verify.ParseKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", publicKeyFile, err)
	}
	for _, page := range keyPages {
		_, says, _, err := readKeyPage(root, page)
		if err != nil {
			return nil, err
		}
		if says != keyText(key) {
			return nil, fmt.Errorf("%s does not name the key of %s: go run ./release publish-key", page, publicKeyFile)
		}
	}
	return key, nil
}

// keyPublished is the gate's check of the key.
func keyPublished(root string) finding {
	key, err := publishedKey(root)
	if err != nil {
		return finding{what: "public key", detail: err.Error()}
	}
	return finding{what: "public key", ok: true, detail: fingerprint(key)}
}

// isPublished returns an error unless the tree publishes this key.
func isPublished(root string, key *verify.Key) error {
	published, err := publishedKey(root)
	if err == nil && !bytes.Equal(published.PEM(), key.PEM()) {
		err = fmt.Errorf("%s has the fingerprint %s, and this key %s", publicKeyFile, fingerprint(published), fingerprint(key))
	}
	return err
}
