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

// Environment variables with passwords. cosign and Helm use the same names.
const (
	passwordVariable = "COSIGN_PASSWORD"
	pgpVariable      = "HELM_KEY_PASSPHRASE"
)

// signing holds the flags that select the signing keys.
type signing struct {
	key         string
	unsigned    bool
	pgpKeyring  string
	pgpIdentity string
}

func (s *signing) addKey(flags *pflag.FlagSet) {
	flags.StringVar(&s.key, "key", "", "private key in the format of cosign generate-key-pair; its password is in "+passwordVariable)
	flags.BoolVar(&s.unsigned, "unsigned", false, "do not sign")
}

func (s *signing) addPGP(flags *pflag.FlagSet) {
	flags.StringVar(&s.pgpKeyring, "pgp-keyring", "", "PGP keyring (binary) that signs the chart for helm verify; its password is in "+pgpVariable)
	flags.StringVar(&s.pgpIdentity, "pgp-identity", "", "a part of the PGP key's user ID")
}

// open returns the private key; nil for --unsigned.
func (s *signing) open() (*sign.Key, error) {
	switch {
	case s.key != "" && s.unsigned:
		return nil, errors.New("--key and --unsigned cannot be combined")
	case s.unsigned:
		return nil, nil //nolint:nilnil // --unsigned means no key
	case s.key == "":
		return nil, errors.New("--key names the private key to sign with; use --unsigned to continue without signatures")
	}
	text, err := os.ReadFile(s.key)
	if err != nil {
		return nil, fmt.Errorf("--key: %w", err)
	}
	key, err := sign.Decrypt(text, []byte(os.Getenv(passwordVariable)))
	if err != nil {
		return nil, fmt.Errorf("--key %s: %w (the password is read from %s)", s.key, err, passwordVariable)
	}
	return key, nil
}

// openPGP returns the PGP key for the chart; nil without --pgp-keyring.
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
		Short: "Generate a key pair for signing, as cosign generate-key-pair does",
		Long: "Generate a key pair for signing: PREFIX.key, encrypted with the password in " + passwordVariable + ", and PREFIX.pub,\n" +
			"with which users verify. The format is that of cosign, whose keys can be used here too.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			password, ok := os.LookupEnv(passwordVariable)
			if !ok {
				return fmt.Errorf("%s is not set: set it to the password for the private key", passwordVariable)
			}
			key, err := sign.Generate()
			if err != nil {
				return err
			}
			private, err := key.Encrypt([]byte(password))
			if err != nil {
				return err
			}
			// O_EXCL: never overwrite an existing key, which would be lost.
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
	cmd.Flags().StringVar(&prefix, "prefix", "cosign", "path of the files without the suffixes .key and .pub")
	return cmd
}
