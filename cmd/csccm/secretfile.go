// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
)

// warn writes what an operator should know about the secrets that were read.
func (f *installFlags) warn(g *globals) {
	for _, note := range f.notes {
		_, _ = fmt.Fprintf(g.errOut, "note: %s\n", note)
	}
	f.warnExposed(g)
}

// warnExposed warns about files with passwords or keys that other users of this machine may read.
func (f *installFlags) warnExposed(g *globals) {
	cmkConfig := ""
	if f.cmk.profile != "" || f.cmk.admin != "" {
		cmkConfig = f.cmk.path(g)
	}
	for _, file := range []struct{ flag, path string }{
		{"--admin-password-file", f.adminPasswordFile},
		{"--admin-api-key-file", f.adminAPIKeyFile},
		{"--admin-secret-key-file", f.adminSecretKeyFile},
		{"--api-key-file", f.apiKeyFile},
		{"--secret-key-file", f.secretKeyFile},
		{"--cloud-config", f.cloudConfig},
		{"--cmk-config", cmkConfig},
	} {
		if file.path == "" {
			continue
		}
		if mode, exposed := credentials.ExposedMode(file.path); exposed {
			_, _ = fmt.Fprintf(g.errOut, "warning: other users may read %s (%s, mode %04o)\n  fix: chmod 600 %s\n",
				file.path, file.flag, mode, report.ShellLine(file.path))
		}
	}
}

// unverified decides whether a profile's verifycert = false is taken over. It is asked, or needs --ssl-no-verify: a
// setting in a file of another program is no consent to hand the controller's traffic to whoever answers.
func (f *installFlags) unverified(ctx context.Context, g *globals) error {
	c := &f.options.Credentials
	if f.cmk.unverified == "" || c.SSLNoVerify || c.CAFile != "" {
		return nil
	}
	what := fmt.Sprintf("profile %q of cmk has verifycert = false", f.cmk.unverified)
	if g.interactive() {
		var err error
		c.SSLNoVerify, err = g.prompter().Confirm(ctx, prompt.Question{
			Message: capital(what) + "; trust any certificate of the API here too", Flag: "--ssl-no-verify", Default: "no",
			Help: "without a trusted certificate anybody between the cluster and CloudStack can read and change the calls; --ca-file names the certificate to trust",
		})
		return err
	}
	return report.Remedied(usagef("%s, which is not taken over without being asked for", what), "add --ca-file FILE with the certificate that signs the API's, or --ssl-no-verify to trust any")
}
