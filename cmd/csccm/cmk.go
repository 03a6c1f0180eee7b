// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/commands/install"
)

// cmkFlags take credentials from the configuration of cmk (CloudMonkey).
type cmkFlags struct {
	config, profile, admin string
	unverified             string // name of the profile, where it has verifycert = false
}

// path is the file that the flags name, or cmk's own.
func (f *cmkFlags) path(g *globals) string {
	if f.config != "" {
		return f.config
	}
	return filepath.Join(g.getenv("HOME"), ".cmk", "config")
}

func (f *cmkFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.admin, "admin-cmk-profile", "", "take the administrator's keys or login from a profile of cmk; without a name the current one")
	flags.StringVar(&f.profile, "cmk-profile", "", "take the controller's keys from a profile of cmk; without a name the current one")
	flags.StringVar(&f.config, "cmk-config", "", "configuration file of cmk (default ~/.cmk/config)")
	for _, name := range []string{"admin-cmk-profile", "cmk-profile"} {
		flags.Lookup(name).NoOptDefVal = credentials.CMKCurrent
		completeFlag(cmd, name, cobra.NoFileCompletions)
	}
}

// read fills what the flags name; what was given by other flags stays.
func (f *cmkFlags) read(g *globals, c *install.CredentialOptions) error {
	switch {
	case f.profile != "" && f.admin != "":
		return usagef("--cmk-profile and --admin-cmk-profile are both given; give one")
	case f.profile == "" && f.admin == "":
		if f.config != "" {
			return usagef("--cmk-config needs --admin-cmk-profile or --cmk-profile")
		}
		return nil
	}
	path := f.path(g)
	flag, name := "--cmk-profile", f.profile
	if f.admin != "" {
		flag, name = "--admin-cmk-profile", f.admin
	}
	p, err := credentials.ReadCMK(path, name)
	if err != nil {
		return err
	}
	c.Origin = []string{flag + "=" + p.Name}
	if f.config != "" {
		c.Origin = append(c.Origin, "--cmk-config", f.config)
	}
	if c.APIURL == "" {
		c.APIURL = p.URL
	}
	if p.SSLNoVerify {
		f.unverified = p.Name
	}
	keys := install.Keys{APIKey: p.Keys.APIKey, SecretKey: p.Keys.SecretKey}
	whole := keys.APIKey != "" && keys.SecretKey != ""
	switch {
	case f.profile != "" && !whole:
		return usagef("profile %q of %s has no keys; cmk sync or cmk set apikey, secretkey make them, or use --admin-cmk-profile", p.Name, path)
	case f.profile != "":
		c.Keys = keys
	case whole:
		c.AdminKeys = keys
	case p.Username == "" || p.Password == "":
		return usagef("profile %q of %s has neither keys nor a login", p.Name, path)
	default:
		c.AdminUser, c.AdminPassword = p.Username, p.Password
		if c.AdminDomain == "" {
			c.AdminDomain = p.Domain
		}
	}
	return nil
}
