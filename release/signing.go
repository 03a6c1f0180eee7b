// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/csccm/csccm/release/internal/chartpkg"
	"github.com/csccm/csccm/release/internal/sign"
)

// Variables of the environment with passwords, named as cosign and Helm name them.
const (
	passwordVariable = "COSIGN_PASSWORD"
	pgpVariable      = "HELM_KEY_PASSPHRASE"
)

// signing says with which keys a release is signed.
type signing struct {
	key         string
	unsigned    bool
	pgpKeyring  string
	pgpIdentity string
}

func (s *signing) addKey(flags *pflag.FlagSet) {
	flags.StringVar(&s.key, "key", "", "private key, as cosign generate-key-pair writes it; its password is in "+passwordVariable)
	flags.BoolVar(&s.unsigned, "unsigned", false, "do not sign")
}

func (s *signing) addPGP(flags *pflag.FlagSet) {
	flags.StringVar(&s.pgpKeyring, "pgp-keyring", "", "PGP keyring (binary) that signs the chart for helm verify; its password is in "+pgpVariable)
	flags.StringVar(&s.pgpIdentity, "pgp-identity", "", "a part of the PGP key's user ID")
}

// open returns the key; nil for --unsigned.
func (s *signing) open() (*sign.Key, error) {
	switch {
	case s.key != "" && s.unsigned:
		return nil, errors.New("--key and --unsigned contradict each other")
	case s.unsigned:
		return nil, nil //nolint:nilnil // none is what was asked for
	case s.key == "":
		return nil, errors.New("--key names the private key to sign with; --unsigned goes on without")
	}
	text, err := os.ReadFile(s.key)
	if err != nil {
		return nil, fmt.Errorf("--key: %w", err)
	}
	key, err := sign.Decrypt(text, []byte(os.Getenv(passwordVariable)))
	if err != nil {
		return nil, fmt.Errorf("--key %s: %w (its password is taken from %s)", s.key, err, passwordVariable)
	}
	return key, nil
}

// openPGP returns the chart's key; nil if none is named.
func (s *signing) openPGP() (*chartpkg.PGP, error) {
	if s.pgpKeyring == "" {
		return nil, nil //nolint:nilnil // the chart's own signature is optional
	}
	return chartpkg.OpenPGP(s.pgpKeyring, s.pgpIdentity, []byte(os.Getenv(pgpVariable)))
}

func newKeyCommand() *cobra.Command {
	var prefix string
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make a key pair to sign with, as cosign generate-key-pair does",
		Long: "Make a key pair to sign with: PREFIX.key, encrypted with the password in " + passwordVariable + ", and PREFIX.pub,\n" +
			"which users verify with. cosign reads both, and its own keys serve here.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			password, ok := os.LookupEnv(passwordVariable)
			if !ok {
				return fmt.Errorf("%s is not set: it has the password of the private key", passwordVariable)
			}
			key, err := sign.Generate()
			if err != nil {
				return err
			}
			private, err := key.Encrypt([]byte(password))
			if err != nil {
				return err
			}
			// O_EXCL: a key that is overwritten is lost.
			file, err := os.OpenFile(filepath.Clean(prefix+".key"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			if _, err := file.Write(private); err != nil {
				return errors.Join(err, file.Close())
			}
			if err := file.Close(); err != nil {
				return err
			}
			if err := writePublic(prefix+".pub", key.Public().PEM()); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s.key  keep it secret\n%s.pub  publish it\n", prefix, prefix)
			return err
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "cosign", "path of the files, without their ends")
	return cmd
}
